/* SPDX-License-Identifier: Apache-2.0
 *
 * What JSON of messages promises. The library of another language judges it too:
 * tests/interop/test_json.py.
 */
#include "lib/base/limits.h"
#include "lib/base/mem.h"
#include "proto/codec.h"
#include "proto/message.h"
#include "proto/protojson.h"
#include "proto/transcode.h"

#include <criterion/criterion.h>
#include <proto/kinds.pb-c.h>
#include <stdio.h>
#include <string.h>

#define KINDS (&foliot__test__kinds__descriptor)

struct
try {
    struct buf wire;
    struct buf json;
    struct arena arena;
    struct fault fault;
    int64_t blocks;
};

static void try_init(struct try *try)
{
    try->blocks = mem_block_count();
    buf_init(&try->wire, RPC_MESSAGE_BYTES_MAX);
    buf_init(&try->json, RPC_MESSAGE_BYTES_MAX);
    arena_init(&try->arena, 0);
}

static void try_fini(struct try *try)
{
    arena_fini(&try->arena);
    buf_fini(&try->wire);
    buf_fini(&try->json);
    cr_assert_eq(mem_block_count(), try->blocks);
}

static int try_read(struct try *try, const char *text)
{
    memset(&try->fault, 0, sizeof(try->fault));
    buf_clear(&try->wire);
    return protojson_read(KINDS, slice_of(text), &try->wire, &try->fault);
}

static void try_write(struct try *try)
{
    ProtobufCMessage *message;

    cr_assert_eq(message_read(KINDS, buf_slice(&try->wire), &try->arena, &message, &try->fault), 0,
                 "%s", try->fault.message);
    buf_clear(&try->json);
    cr_assert_eq(protojson_write(message, &try->json), 0);
}

/* What `text` is when it has been a message. */
static void expect(const char *text, const char *wanted)
{
    struct try try;

    try_init(&try);
    cr_assert_eq(try_read(&try, text), 0, "%s: %s", text, try.fault.message);
    try_write(&try);
    cr_assert_str_eq(buf_text(&try.json), wanted, "%s gives %s", text, buf_text(&try.json));
    try_fini(&try);
}

/* `text` is refused for this reason, and the field to blame is named. */
static void expect_refused(const char *text, const char *reason, const char *field)
{
    struct try try;

    try_init(&try);
    cr_assert_neq(try_read(&try, text), 0, "%s is read", text);
    cr_assert_str_eq(try.fault.reason, reason, "%s: %s", text, try.fault.message);
    cr_assert_str_eq(try.fault.field, field, "%s: %s", text, try.fault.field);
    cr_assert_eq(try.fault.status, strcmp(reason, "MESSAGE_TOO_COSTLY") == 0
                                       ? RPC_RESOURCE_EXHAUSTED
                                       : RPC_INVALID_ARGUMENT);
    cr_assert(strstr(try.fault.message, field) != NULL, "%s", try.fault.message);
    try_fini(&try);
}

Test(protojson, writes_the_form_of_proto3)
{
    static const char *const same[] = {
        "{}",
        "{\"int32Value\":-2147483648}",
        "{\"int64Value\":\"-9223372036854775808\"}",
        "{\"uint32Value\":4294967295}",
        "{\"uint64Value\":\"18446744073709551615\"}",
        "{\"sint32Value\":-1,\"sint64Value\":\"-1\"}",
        "{\"fixed32Value\":1,\"fixed64Value\":\"2\",\"sfixed32Value\":-3,\"sfixed64Value\":\"-4\"}",
        "{\"floatValue\":1.5,\"doubleValue\":0.1}",
        "{\"floatValue\":\"NaN\",\"doubleValue\":\"-Infinity\"}",
        "{\"boolValue\":true}",
        "{\"text\":\"\xc3\xa4 \\\"quoted\\\" \\\\ \\n \\u0001\"}",
        "{\"data\":\"AAH/\"}",
        "{\"colour\":\"COLOUR_COLD\"}",
        "{\"colour\":77}",
        "{\"inner\":{}}",
        "{\"inner\":{\"name\":\"x\",\"span\":\"0s\",\"numbers\":[1,2]}}",
        "{\"someTime\":\"2026-01-02T03:04:05.678Z\"}",
        "{\"someTime\":\"0001-01-01T00:00:00Z\",\"someSpan\":\"-315576000000.999999999s\"}",
        "{\"doubleValue\":-0.0}",
        "{\"someSpan\":\"-0.500s\"}",
        "{\"int64List\":[\"0\",\"1\"],\"doubleList\":[0,1e+300],\"texts\":[\"\",\"a\"]}",
        "{\"dataList\":[\"\",\"YQ==\"],\"colours\":[\"COLOUR_UNSPECIFIED\",\"COLOUR_BLUE\"]}",
        "{\"inners\":[{},{\"name\":\"b\"}],\"times\":[\"1970-01-01T00:00:00Z\"]}",
        "{\"bools\":[false,true]}",
        "{\"labels\":{\"\":\"\",\"k\":\"v\"}}",
        "{\"innerByNumber\":{\"-5\":{\"name\":\"x\"},\"7\":{}}}",
        "{\"colourByBool\":{\"false\":\"COLOUR_UNSPECIFIED\",\"true\":\"COLOUR_RED\"}}",
        "{\"dataByNumber\":{\"18446744073709551615\":\"AA==\"}}",
        "{\"chosenText\":\"\"}",
        "{\"chosenNumber\":\"0\"}",
        "{\"chosenInner\":{}}",
        "{\"chosenSpan\":\"1.500s\"}",
        "{\"chosenColour\":\"COLOUR_UNSPECIFIED\",\"otherFlag\":false}",
        "{\"pairs\":[{\"key\":\"k\",\"value\":\"v\"}]}",
    };

    for (size_t i = 0; i < ARRAY_COUNT(same); i++) {
        expect(same[i], same[i]);
    }
}

Test(protojson, reads_every_form_that_proto3_allows)
{
    static const char *const pairs[][2] = {
        {" { \"int32_value\" : 5 } ", "{\"int32Value\":5}"},
        {"{\"int32Value\":\"5\",\"int64Value\":6}", "{\"int32Value\":5,\"int64Value\":\"6\"}"},
        {"{\"int32Value\":5.0,\"uint64Value\":1e3}", "{\"int32Value\":5,\"uint64Value\":\"1000\"}"},
        {"{\"int32Value\":0,\"text\":\"\",\"colour\":0}", "{}"},
        {"{\"int32Value\":null,\"inner\":null,\"texts\":null,\"labels\":null}", "{}"},
        {"{\"chosenText\":null,\"chosenNumber\":1}", "{\"chosenNumber\":\"1\"}"},
        {"{\"doubleValue\":\"1e3\",\"floatValue\":2}", "{\"floatValue\":2,\"doubleValue\":1000}"},
        {"{\"floatValue\":3.4028235e38}", "{\"floatValue\":3.402823466e+38}"},
        {"{\"colour\":5}", "{\"colour\":\"COLOUR_BLUE\"}"},
        {"{\"data\":\"-_-_\"}", "{\"data\":\"+/+/\"}"},
        {"{\"data\":\"YQ\"}", "{\"data\":\"YQ==\"}"},
        {"{\"someTime\":\"2026-01-02T03:04:05+01:00\"}", "{\"someTime\":\"2026-01-02T02:04:05Z\"}"},
        {"{\"someSpan\":\"1.5s\"}", "{\"someSpan\":\"1.500s\"}"},
        {"{\"texts\":[],\"labels\":{}}", "{}"},
        {"{\"inner_by_number\":{\"1\":{\"numbers\":[\"3\"]}}}",
         "{\"innerByNumber\":{\"1\":{\"numbers\":[3]}}}"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(pairs); i++) {
        expect(pairs[i][0], pairs[i][1]);
    }
}

Test(protojson, refuses_with_reason_and_path)
{
    static const struct {
        const char *text;
        const char *reason;
        const char *field;
    } rows[] = {
        {"", "JSON_MALFORMED", ""},
        {"x", "JSON_MALFORMED", ""},
        {"[]", "JSON_MALFORMED", ""},
        {"{} {}", "JSON_MALFORMED", ""},
        {"{\"text\":\"\\u0000\"}", "JSON_MALFORMED", ""},
        {"{\"text\":\"\xff\"}", "JSON_MALFORMED", ""},
        {"{\"uint64Value\":18446744073709551615}", "JSON_MALFORMED", ""},
        {"{\"text\":\"a\",\"text\":\"b\"}", "JSON_MALFORMED", ""},
        {"{\"nothing\":1}", "FIELD_UNKNOWN", "nothing"},
        {"{\"inner\":{\"nothing\":1}}", "FIELD_UNKNOWN", "inner.nothing"},
        {"{\"inners\":[{},{\"nothing\":1}]}", "FIELD_UNKNOWN", "inners[1].nothing"},
        {"{\"innerByNumber\":{\"4\":{\"nothing\":1}}}", "FIELD_UNKNOWN",
         "inner_by_number[4].nothing"},
        {"{\"someTime\":\"2026-01-02T00:00:00Z\",\"some_time\":\"2026-01-02T00:00:00Z\"}",
         "FIELD_TWICE", "some_time"},
        {"{\"chosenText\":\"\",\"chosenNumber\":1}", "FIELD_TWICE", "chosen_number"},
        {"{\"int32Value\":2147483648}", "VALUE_OUT_OF_RANGE", "int32_value"},
        {"{\"int32Value\":-2147483649}", "VALUE_OUT_OF_RANGE", "int32_value"},
        {"{\"int64Value\":\"9223372036854775808\"}", "VALUE_OUT_OF_RANGE", "int64_value"},
        {"{\"uint32Value\":-1}", "VALUE_OUT_OF_RANGE", "uint32_value"},
        {"{\"uint64Value\":\"18446744073709551616\"}", "VALUE_INVALID", "uint64_value"},
        {"{\"int32Value\":1.5}", "VALUE_INVALID", "int32_value"},
        {"{\"int32Value\":\"1 \"}", "VALUE_INVALID", "int32_value"},
        {"{\"int32Value\":\"-\"}", "VALUE_INVALID", "int32_value"},
        {"{\"int32Value\":true}", "VALUE_INVALID", "int32_value"},
        {"{\"floatValue\":3.4028236e38}", "VALUE_OUT_OF_RANGE", "float_value"},
        {"{\"doubleValue\":\"0x10\"}", "VALUE_INVALID", "double_value"},
        {"{\"doubleValue\":\"inf\"}", "VALUE_INVALID", "double_value"},
        {"{\"boolValue\":\"true\"}", "VALUE_INVALID", "bool_value"},
        {"{\"boolValue\":1}", "VALUE_INVALID", "bool_value"},
        {"{\"text\":5}", "VALUE_INVALID", "text"},
        {"{\"data\":\"!\"}", "VALUE_INVALID", "data"},
        {"{\"data\":5}", "VALUE_INVALID", "data"},
        {"{\"colour\":\"RED\"}", "ENUM_UNKNOWN", "colour"},
        {"{\"colour\":1.5}", "ENUM_UNKNOWN", "colour"},
        {"{\"inner\":[]}", "VALUE_INVALID", "inner"},
        {"{\"inners\":{}}", "VALUE_INVALID", "inners"},
        {"{\"inners\":[null]}", "VALUE_INVALID", "inners[0]"},
        {"{\"labels\":[]}", "VALUE_INVALID", "labels"},
        {"{\"labels\":{\"a\":null}}", "VALUE_INVALID", "labels[a]"},
        {"{\"innerByNumber\":{\"x\":{}}}", "VALUE_INVALID", "inner_by_number[x]"},
        {"{\"colourByBool\":{\"yes\":1}}", "VALUE_INVALID", "colour_by_bool[yes]"},
        {"{\"someTime\":\"yesterday\"}", "VALUE_INVALID", "some_time"},
        {"{\"someTime\":1700000000}", "VALUE_INVALID", "some_time"},
        {"{\"someTime\":\"0000-12-31T23:59:59Z\"}", "TIME_OUT_OF_RANGE", "some_time"},
        {"{\"someTime\":\"9999-12-31T23:59:59-01:00\"}", "TIME_OUT_OF_RANGE", "some_time"},
        {"{\"someSpan\":\"5\"}", "VALUE_INVALID", "some_span"},
        {"{\"someSpan\":\"1.s\"}", "VALUE_INVALID", "some_span"},
        {"{\"someSpan\":\"1.0000000001s\"}", "VALUE_INVALID", "some_span"},
        {"{\"someSpan\":\"99999999999999999999s\"}", "VALUE_INVALID", "some_span"},
        {"{\"someSpan\":\"315576000001s\"}", "TIME_OUT_OF_RANGE", "some_span"},
        {"{\"inner\":{\"numbers\":[[[[[[[[[[[[1]]]]]]]]]]]]}}", "MESSAGE_TOO_COSTLY", ""},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        expect_refused(rows[i].text, rows[i].reason, rows[i].field);
    }
}

Test(protojson, says_what_there_is_instead)
{
    struct try try;

    try_init(&try);
    cr_assert_eq(try_read(&try, "{\"inner\":{\"span_\":1}}"), ERR_INVALID);
    cr_assert_str_eq(try.fault.message,
                     "inner.span_: unknown field; Inner has name, span, numbers");
    cr_assert_eq(try_read(&try, "{\"colour\":\"RED\"}"), ERR_INVALID);
    cr_assert_str_eq(try.fault.message, "colour: must be one of COLOUR_COLD, COLOUR_UNSPECIFIED, "
                                        "COLOUR_RED, COLOUR_BLUE");
    cr_assert_eq(try_read(&try, "{\n  \"text\": x }"), ERR_INVALID);
    cr_assert(strstr(try.fault.message, "line 2, column 11") != NULL, "%s", try.fault.message);
    try_fini(&try);
}

/* A list of `count` numbers. */
static void write_list(struct buf *text, size_t count)
{
    (void)buf_append_text(text, "{\"int64List\":[");
    for (size_t i = 0; i < count; i++) {
        (void)buf_append_text(text, i == 0 ? "7" : ",7");
    }
    (void)buf_append_text(text, "]}");
}

Test(protojson, the_number_of_values_is_bounded_before_memory_is_spent)
{
    struct buf text;
    struct try try;

    try_init(&try);
    buf_init(&text, 1 << 20);
    write_list(&text, PROTOJSON_VALUE_COUNT_MAX - 2);
    cr_assert_eq(try_read(&try, buf_text(&text)), 0, "%s", try.fault.message);
    buf_clear(&text);
    write_list(&text, PROTOJSON_VALUE_COUNT_MAX);
    cr_assert_eq(try_read(&try, buf_text(&text)), ERR_TOO_LARGE);
    cr_assert_str_eq(try.fault.reason, "MESSAGE_TOO_COSTLY");
    buf_fini(&text);
    try_fini(&try);
}

Test(protojson, a_message_that_does_not_fit_is_refused)
{
    struct buf small;
    struct fault fault;

    buf_init(&small, 8);
    cr_assert_eq(protojson_read(KINDS, slice_of("{\"text\":\"123456\"}"), &small, &fault), 0);
    buf_clear(&small);
    cr_assert_eq(protojson_read(KINDS, slice_of("{\"text\":\"1234567\"}"), &small, &fault),
                 ERR_TOO_LARGE);
    cr_assert_str_eq(fault.reason, "MESSAGE_TOO_LARGE");
    buf_clear(&small);
    cr_assert_eq(protojson_read(KINDS, slice_of("{\"data\":\"AAAAAAAAAAAA\"}"), &small, &fault),
                 ERR_TOO_LARGE);
    buf_fini(&small);
}

/* Fails the allocation with this number, and counts. */
static bool fails_at(size_t size, void *ctx)
{
    int *left = ctx;

    (void)size;
    return (*left)-- != 0;
}

Test(protojson, an_allocation_that_fails_is_an_error_and_leaks_nothing)
{
    static const char text[] = "{\"inners\":[{\"name\":\"x\"}],\"data\":\"AAAA\",\"labels\":{\"a\":"
                               "\"b\"}}";
    int err = ERR_TOO_LARGE;

    for (int i = 0; err != 0; i++) {
        struct try try;
        int left = i;

        try_init(&try);
        mem_set_hook(fails_at, &left);
        err = try_read(&try, text);
        mem_set_hook(NULL, NULL);
        cr_assert(err == 0 || err == ERR_TOO_LARGE);
        cr_assert(err == 0 || i < 20);
        try_fini(&try);
    }
}

Test(transcode, finds_every_method_by_its_path)
{
    char path[TRANSCODE_PATH_BYTES];
    size_t count = 0;

    while (transcode_path(count, path)) {
        cr_assert_not_null(transcode_find(slice_of(path)), "%s", path);
        count++;
    }
    cr_assert_geq(count, 10);
    cr_assert_null(transcode_find(slice_of("")));
    cr_assert_null(transcode_find(slice_of("/foliot.v1.TaskService/")));
    cr_assert_null(transcode_find(slice_of("/foliot.v1.TaskService/create")));
    cr_assert_null(transcode_find(slice_of("/foliot.v1.TaskService/Creates")));
    cr_assert_null(transcode_find(slice_of("foliot.v1.TaskService/Create")));
    cr_assert_null(transcode_find(slice_of("/foliot.internal.Peer/Report")));
}

Test(transcode, an_empty_text_is_an_empty_message)
{
    struct try try;

    try_init(&try);
    cr_assert_eq(transcode_request(transcode_find(slice_of("/foliot.v1.TaskService/Create")),
                                   slice_of(""), &try.wire, &try.fault),
                 0);
    cr_assert_eq(buf_len(&try.wire), 0);
    try_fini(&try);
}

Test(transcode, failures_carry_their_details)
{
    struct fault fault;
    struct try try;

    try_init(&try);
    fault_set(&fault, RPC_INVALID_ARGUMENT, "KEY_TOO_LONG", "key", "the \"key\" is too long");
    fault.retry_after_ms = 1500;
    cr_assert_eq(fault_encode(&fault, &try.wire), 0);
    cr_assert_eq(transcode_failure(&(struct transcode_failure){.status = fault.status,
                                                               .message = fault.message,
                                                               .details = buf_slice(&try.wire)},
                                   &try.json),
                 0);
    cr_assert_str_eq(
        buf_text(&try.json),
        "{\"code\":\"invalid_argument\",\"message\":\"the \\\"key\\\" is too long\",\"details\":["
        "{\"type\":\"google.rpc.ErrorInfo\",\"value\":\"CgxLRVlfVE9PX0xPTkcSBmZvbGlvdA\","
        "\"debug\":{\"reason\":\"KEY_TOO_LONG\",\"domain\":\"foliot\"}},"
        "{\"type\":\"google.rpc.BadRequest\",\"value\":\"ChwKA2tleRIVdGhlICJrZXkiIGlzIHRvbyBsb25n\""
        ",\"debug\":{\"fieldViolations\":[{\"field\":\"key\",\"description\":\"the \\\"key\\\" is "
        "too long\"}]}},"
        "{\"type\":\"google.rpc.RetryInfo\",\"value\":\"CggIARCAyrXuAQ\","
        "\"debug\":{\"retryDelay\":\"1.500s\"}}]}");
    try_fini(&try);
}

Test(transcode, garbage_in_the_details_leaves_the_rest)
{
    struct try try;

    try_init(&try);
    cr_assert_eq(transcode_failure(&(struct transcode_failure){.status = RPC_UNAVAILABLE,
                                                               .message = "m",
                                                               .details = slice_of("\xff\xff")},
                                   &try.json),
                 0);
    cr_assert_str_eq(buf_text(&try.json), "{\"code\":\"unavailable\",\"message\":\"m\"}");
    cr_assert_eq(transcode_http_status(RPC_UNAVAILABLE), 503);
    cr_assert_eq(transcode_http_status(RPC_RESOURCE_EXHAUSTED), 429);
    cr_assert_eq(transcode_http_status((enum rpc_status)99), 500);
    try_fini(&try);
}
