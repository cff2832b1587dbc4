/* SPDX-License-Identifier: Apache-2.0
 *
 * The fuzz targets' own inputs while memory runs out: the n-th allocation of each fails, for every
 * n until it is through without reaching it. The targets' own promises stand, but for those that
 * need memory: nothing crashes, nothing leaks, an error is one of those that may be.
 */
#include "lib/base/attr.h"
#include "lib/base/mem.h"
#include "tests/fuzz/fuzz_memory.h"
#include "tests/lib/must.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define INPUT_BYTES_MAX 4096
#define POINTS_MAX      5000

int fuzz_codec_other(const uint8_t *data, size_t size);
int fuzz_codec_task(const uint8_t *data, size_t size);
int fuzz_grpc_msg(const uint8_t *data, size_t size);
int fuzz_protojson(const uint8_t *data, size_t size);
int fuzz_rpc_caller(const uint8_t *data, size_t size);
int fuzz_rpc_session(const uint8_t *data, size_t size);

typedef int (*target_fn)(const uint8_t *data, size_t size);

bool fuzz_lacks_memory;

static int left; /* allocations until the one that fails */

static bool on_allocation(size_t size, void *ctx)
{
    (void)size;
    (void)ctx;
    if (left-- != 0) {
        return true;
    }
    fuzz_lacks_memory = true;
    return false;
}

/* How many allocations one input takes. */
static int fail_each(target_fn target, const uint8_t *data, size_t size)
{
    int n = 0;

    for (; n < POINTS_MAX; n++) {
        fuzz_lacks_memory = false;
        left = n;
        mem_set_hook(on_allocation, NULL);
        (void)target(data, size);
        mem_set_hook(NULL, NULL);
        if (!fuzz_lacks_memory) {
            break;
        }
    }
    MUST(n < POINTS_MAX);
    return n;
}

static size_t read_input(const char *folder, const char *name, uint8_t *bytes)
{
    char path[1024];
    FILE *file;
    size_t size;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    MUST(file != NULL);
    size = fread(bytes, 1, INPUT_BYTES_MAX, file);
    MUST_EQ(fclose(file), 0);
    return size;
}

static void walk(target_fn target, const char *name)
{
    char folder[512];
    struct dirent *found;
    int allocations = 0;
    int inputs = 0;
    DIR *dir;

    (void)snprintf(folder, sizeof(folder), "%s/%s", FUZZ_CORPUS, name);
    dir = opendir(folder);
    MUST(dir != NULL);
    while ((found = readdir(dir)) != NULL) {
        uint8_t bytes[INPUT_BYTES_MAX];

        if (found->d_name[0] != '.') {
            allocations += fail_each(target, bytes, read_input(folder, found->d_name, bytes));
            inputs++;
        }
    }
    MUST_EQ(closedir(dir), 0);
    (void)fprintf(stderr, "%s: %d inputs, %d allocations, each has failed once\n", name, inputs,
                  allocations);
    MUST(inputs > 0 && allocations > 0);
}

static void codec_of_tasks(void)
{
    walk(fuzz_codec_task, "fuzz_codec_task");
}

static void codec_of_other_messages(void)
{
    walk(fuzz_codec_other, "fuzz_codec_other");
}

static void framing_of_messages(void)
{
    walk(fuzz_grpc_msg, "fuzz_grpc_msg");
}

static void json(void)
{
    walk(fuzz_protojson, "fuzz_protojson");
}

static void connection_of_a_client(void)
{
    walk(fuzz_rpc_session, "fuzz_rpc_session");
}

static void connection_to_a_server(void)
{
    walk(fuzz_rpc_caller, "fuzz_rpc_caller");
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(codec_of_tasks),         MUST_CASE(codec_of_other_messages),
        MUST_CASE(framing_of_messages),    MUST_CASE(json),
        MUST_CASE(connection_of_a_client), MUST_CASE(connection_to_a_server),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
