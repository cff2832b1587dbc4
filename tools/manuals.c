/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of the build: writes the manual pages, the reference of settings and the scripts for
 * completion into a folder, from the tables that the programs themselves use.
 */
#include "broker/config_manual.h"
#include "client/cli/complete.h"
#include "client/cli/manual.h"

#include <stdio.h>

#define PAGE_BYTES_MAX 262144

static bool write_page(const char *folder, const char *name, const struct buf *page)
{
    struct slice text = buf_slice(page);
    char path[1024];
    FILE *file;
    bool is_written;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "w");
    if (file == NULL) {
        return false;
    }
    is_written = !page->failed && fwrite(text.data, 1, text.len, file) == text.len;
    return fclose(file) == 0 && is_written;
}

static bool write_all(const char *folder)
{
    struct buf page;
    char name[64];
    bool is_written;

    buf_init(&page, PAGE_BYTES_MAX);
    config_manual(&page, FOLIOT_VERSION);
    is_written = write_page(folder, "foliotd.8", &page);
    buf_clear(&page);
    config_reference(&page);
    is_written = write_page(folder, "CONFIGURATION.md", &page) && is_written;
    buf_clear(&page);
    (void)buf_append_text(&page, completion_script("bash"));
    is_written = write_page(folder, "foliot.bash", &page) && is_written;
    buf_clear(&page);
    (void)buf_append_text(&page, completion_script("zsh"));
    is_written = write_page(folder, "_foliot", &page) && is_written;
    for (size_t i = 0; i < manual_count() && is_written; i++) {
        buf_clear(&page);
        manual_write(i, &page, name, sizeof(name));
        is_written = write_page(folder, name, &page);
    }
    buf_fini(&page);
    return is_written;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fputs("usage: manuals FOLDER\n", stderr);
        return 2;
    }
    if (!write_all(argv[1])) {
        (void)fprintf(stderr, "manuals: cannot write to \"%s\"\n", argv[1]);
        return 1;
    }
    return 0;
}
