/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiler attributes under short names, so that contracts can be written in the prototype.
 */
#ifndef FOLIOT_LIB_BASE_ATTR_H
#define FOLIOT_LIB_BASE_ATTR_H

#define MUST_USE          __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define UNUSED            __attribute__((unused))

/* For a function that is worth a copy where one of its arguments is known. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

#define ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* For a rare case with large variables, which the compiler fills with zeros at every call. */
#define NEVER_INLINE __attribute__((noinline))

/* The struct that embeds `member`, from the member's address. */
#define CONTAINER_OF(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#endif
