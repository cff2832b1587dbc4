/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in a manual page is text, whatever is in it.
 */
#include "lib/base/roff.h"

#include <criterion/criterion.h>

Test(roff, nothing_in_a_text_is_taken_for_a_request)
{
    struct buf out;

    buf_init(&out, 4096);
    roff_text(&out, ".so /etc/passwd\n'br\nat a.b's \\n --x");
    cr_assert_str_eq(buf_text(&out), "\\&.so /etc/passwd\n\\&'br\nat a.b's \\en \\-\\-x");
    buf_fini(&out);
}

Test(roff, a_page_has_its_parts)
{
    struct buf out;

    buf_init(&out, 4096);
    roff_begin(&out, "foliot-x", 1, "1.2", "a phrase");
    roff_heading(&out, "See also");
    roff_item(&out, "-a, --all", "N", "all of them");
    roff_item(&out, "0", NULL, "ok");
    roff_example(&out, "  foliot x\n");
    cr_assert_str_eq(buf_text(&out), ".TH FOLIOT\\-X 1 \"\" \"Foliot 1.2\" \"Foliot\"\n"
                                     ".SH NAME\nfoliot\\-x \\- a phrase\n"
                                     ".SH SEE ALSO\n"
                                     ".TP\n\\fB\\-a, \\-\\-all\\fR \\fIN\\fR\nall of them\n"
                                     ".TP\n\\fB0\\fR\nok\n"
                                     ".nf\n  foliot x\n.fi\n");
    buf_fini(&out);
}
