/* SPDX-License-Identifier: Apache-2.0
 *
 * What the codecs of gRPC's header texts promise.
 */
#include "lib/base/prng.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_fields.h"

#include <criterion/criterion.h>

#include <string.h>

Test(grpc_header, timeouts_are_parsed)
{
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        {"1H", 3600000000},
        {"2M", 120000000},
        {"3S", 3000000},
        {"4m", 4000},
        {"5u", 5},
        {"1n", 1},
        {"1000n", 1},
        {"1001n", 2},
        {"0S", 0},
        {"99999999H", 359999996400000000},
        {"00000001S", 1000000},
    };
    int64_t us;

    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        cr_assert_eq(grpc_timeout_parse(slice_of(good[i].text), &us), 0);
        cr_assert_eq(us, good[i].us, "%s gave %ld", good[i].text, (long)us);
    }
}

Test(grpc_header, bad_timeouts_are_refused)
{
    static const char *const bad[] = {"",    "S",   "1",   "1s",   "123456789S", "-1S",
                                      "+1S", "1 S", " 1S", "1.5S", "1SS",        "0x1S"};
    int64_t us = 77;

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        cr_assert_eq(grpc_timeout_parse(slice_of(bad[i]), &us), ERR_INVALID, "%s", bad[i]);
    }
    cr_assert_eq(us, 77);
}

Test(grpc_header, a_formatted_timeout_is_never_longer_and_nearly_as_long)
{
    struct prng prng;
    char text[GRPC_TIMEOUT_BYTES];

    prng_init(&prng, 3);
    for (int i = 0; i < 100000; i++) {
        int64_t us = (int64_t)(prng_next(&prng) >> (1 + prng_below(&prng, 62)));
        int64_t back;

        grpc_timeout_format(us, text);
        cr_assert_leq(strlen(text), 9);
        cr_assert_eq(grpc_timeout_parse(slice_of(text), &back), 0);
        if (us > 0 && us < INT64_C(359999996400000000)) {
            cr_assert_leq(back, us);
            cr_assert_geq(back, us - us / 100);
        }
    }
    grpc_timeout_format(-5, text);
    cr_assert_str_eq(text, "1n");
    grpc_timeout_format(INT64_MAX, text);
    cr_assert_str_eq(text, "99999999H");
}

Test(grpc_header, messages_survive_percent_coding)
{
    uint8_t every[256];
    struct buf encoded;
    struct buf decoded;

    for (int i = 0; i < 256; i++) {
        every[i] = (uint8_t)i;
    }
    buf_init(&encoded, 4096);
    buf_init(&decoded, 4096);
    cr_assert_eq(grpc_percent_encode((struct slice){every, 256}, &encoded), 0);
    for (size_t i = 0; i < buf_len(&encoded); i++) {
        cr_assert(encoded.data[i] >= 0x20 && encoded.data[i] <= 0x7e);
    }
    cr_assert_eq(grpc_percent_decode(buf_slice(&encoded), &decoded), 0);
    cr_assert(slice_equal(buf_slice(&decoded), (struct slice){every, 256}));
    buf_clear(&encoded);
    cr_assert_eq(grpc_percent_encode(slice_of("a%\n\xc3\xa4~"), &encoded), 0);
    cr_assert_str_eq(buf_text(&encoded), "a%25%0A%C3%A4~");
    buf_fini(&encoded);
    buf_fini(&decoded);
}

Test(grpc_header, percent_decoding_keeps_what_is_no_escape)
{
    static const char *const texts[] = {"%", "%4", "%zz", "100%", "a%2", "%%41", "%g1"};
    static const char *const wanted[] = {"%", "%4", "%zz", "100%", "a%2", "%A", "%g1"};

    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct buf decoded;

        buf_init(&decoded, 100);
        cr_assert_eq(grpc_percent_decode(slice_of(texts[i]), &decoded), 0);
        cr_assert_str_eq(buf_text(&decoded), wanted[i]);
        buf_fini(&decoded);
    }
}

Test(grpc_header, a_long_message_is_cut_outside_characters)
{
    char text[2000];
    struct buf encoded;

    memset(text, 'a', sizeof(text));
    text[1023] = '\xe4';
    text[1024] = '\xb8';
    text[1025] = '\xad';
    buf_init(&encoded, 4096);
    cr_assert_eq(grpc_percent_encode((struct slice){(uint8_t *)text, sizeof(text)}, &encoded), 0);
    cr_assert_eq(buf_len(&encoded), 1023);
    buf_fini(&encoded);
}

Test(grpc_header, content_types_paths_and_names_are_told_apart)
{
    cr_assert(grpc_is_content_type(slice_of("application/grpc")));
    cr_assert(grpc_is_content_type(slice_of("application/grpc+proto")));
    cr_assert(grpc_is_content_type(slice_of("application/grpc;x=y")));
    cr_assert(grpc_is_content_type(slice_of("application/grpc+proto; x")));
    cr_assert_not(grpc_is_content_type(slice_of("application/grpc+json")));
    cr_assert_not(grpc_is_content_type(slice_of("application/grpc-web")));
    cr_assert_not(grpc_is_content_type(slice_of("application/json")));
    cr_assert_not(grpc_is_content_type(slice_of("")));
    cr_assert(grpc_is_path(slice_of("/a.B/C")));
    cr_assert_not(grpc_is_path(slice_of("/a.B")));
    cr_assert_not(grpc_is_path(slice_of("//C")));
    cr_assert_not(grpc_is_path(slice_of("/a/")));
    cr_assert_not(grpc_is_path(slice_of("a/b/c")));
    cr_assert_not(grpc_is_path(slice_of("/a/b/c")));
    cr_assert_not(grpc_is_path((struct slice){NULL, 0}));
    cr_assert(slice_equal(grpc_path_service(slice_of("/a.B/C")), slice_of("a.B")));
    cr_assert(grpc_is_metadata_name(slice_of("x-task_id.1-bin")));
    cr_assert_not(grpc_is_metadata_name(slice_of("X-Upper")));
    cr_assert_not(grpc_is_metadata_name(slice_of("grpc-timeout")));
    cr_assert_not(grpc_is_metadata_name(slice_of("content-type")));
    cr_assert_not(grpc_is_metadata_name(slice_of(":path")));
    cr_assert_not(grpc_is_metadata_name(slice_of("")));
    cr_assert(grpc_is_metadata_value(slice_of("a b")));
    cr_assert_not(grpc_is_metadata_value(slice_of(" a")));
    cr_assert_not(grpc_is_metadata_value(slice_of("a\n")));
}

Test(grpc_header, statuses_and_numbers_are_parsed_without_surprises)
{
    int64_t number = 5;

    cr_assert_eq(grpc_status_parse(slice_of("0")), RPC_OK);
    cr_assert_eq(grpc_status_parse(slice_of("16")), RPC_UNAUTHENTICATED);
    cr_assert_eq(grpc_status_parse(slice_of("17")), RPC_UNKNOWN);
    cr_assert_eq(grpc_status_parse(slice_of("-1")), RPC_UNKNOWN);
    cr_assert_eq(grpc_status_parse(slice_of("")), RPC_UNKNOWN);
    cr_assert_eq(grpc_status_parse(slice_of("0x0")), RPC_UNKNOWN);
    cr_assert_eq(grpc_number_parse(slice_of("-250"), &number), 0);
    cr_assert_eq(number, -250);
    cr_assert_eq(grpc_number_parse(slice_of("9223372036854775808"), &number), ERR_INVALID);
    cr_assert_eq(grpc_number_parse(slice_of("-"), &number), ERR_INVALID);
    cr_assert_eq(grpc_status_of_http(503), RPC_UNAVAILABLE);
    cr_assert_eq(grpc_status_of_http(404), RPC_UNIMPLEMENTED);
    cr_assert_eq(grpc_status_of_http(200), RPC_UNKNOWN);
    cr_assert_eq(grpc_status_of_reset(7), RPC_UNAVAILABLE);
    cr_assert_eq(grpc_status_of_reset(8), RPC_CANCELLED);
    cr_assert_eq(grpc_status_of_reset(2), RPC_INTERNAL);
}

Test(rpc_fields, duplicates_stay_in_order_and_binary_values_are_decoded)
{
    struct rpc_fields fields;
    struct slice name;
    struct slice value;
    size_t position = 0;
    uint8_t big[990] = {0};

    rpc_fields_init(&fields, 1000);
    cr_assert_eq(rpc_fields_add(&fields, slice_of("a"), slice_of("1")), 0);
    cr_assert_eq(rpc_fields_add(&fields, slice_of("b-bin"), slice_of("aGk=,aG8,?")), 0);
    cr_assert_eq(rpc_fields_add(&fields, slice_of("a"), slice_of("")), 0);
    cr_assert(slice_equal(rpc_fields_find(&fields, slice_of("a")), slice_of("1")));
    cr_assert(slice_equal(rpc_fields_find(&fields, slice_of("b-bin")), slice_of("hi")));
    cr_assert_null(rpc_fields_find(&fields, slice_of("c")).data);
    for (int i = 0; i < 5; i++) {
        static const char *const values[] = {"1", "hi", "ho", "?", ""};

        cr_assert(rpc_fields_next(&fields, &position, &name, &value));
        cr_assert(slice_equal(value, slice_of(values[i])), "%d", i);
    }
    cr_assert_not(rpc_fields_next(&fields, &position, &name, &value));
    cr_assert_eq(rpc_fields_add(&fields, slice_of("big"), (struct slice){big, sizeof(big)}),
                 ERR_TOO_LARGE);
    rpc_fields_fini(&fields);
}
