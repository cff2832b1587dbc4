/* SPDX-License-Identifier: Apache-2.0
 *
 * The one table of foliotd's options, and how a value of each type is read from and written as
 * text. Private to the config files.
 */
#ifndef FOLIOT_BROKER_CONFIG_TABLE_H
#define FOLIOT_BROKER_CONFIG_TABLE_H

#include "broker/config.h"

enum option_type {
    OPTION_TEXT,   /* low … high: bytes */
    OPTION_COUNT,  /* low … high: the number */
    OPTION_SPAN,   /* low … high: milliseconds; "250ms", "4s", "10m", "1h" */
    OPTION_CHOICE, /* one of the words of `choices` */
    OPTION_LIST    /* low … high: items */
};

struct config_option {
    const char *key;
    enum option_type type;
    size_t field;              /* offset in struct config */
    const char *default_value; /* as text; of a list: items parted by `separator` */
    int64_t low;
    int64_t high;
    const char *choices; /* words parted by '|' */
    char separator;      /* LIST in environment and flags; also newline */
    bool is_secret;      /* hidden in print, readable from a file named by …_FILE */
    const char *value;   /* what stands for the value in the help */
    const char *doc;     /* one sentence or more, without the default */
};

#define OPTION_NAME_SIZE 96

size_t config_option_count(void);
const struct config_option *config_option_at(size_t index);

/* Index of a key; config_option_count() if there is none. */
size_t config_option_find(const char *key);

/* Key nearest to a misspelt one, or NULL if none is near. The name may also be a flag or a variable
 * without prefix: '-' and '_' are taken for '.'. */
const char *config_option_near(const char *key);

/* "FOLIOT_…" and "--…" of an option. shape: text has OPTION_NAME_SIZE. */
void config_option_variable(const struct config_option *option, char *text);
void config_option_flag(const struct config_option *option, char *text);

/* Texts of one value: one, or the items of a list. */
struct config_value {
    const struct slice *items;
    size_t count;
    bool is_list; /* written as a list: a scalar option refuses it */
};

/*
 * Set a field from its text.
 *
 * errors: ERR_INVALID with why in errmsg ("must be …"), ERR_NO_MEMORY. The field is then untouched.
 */
MUST_USE int config_option_set(struct config *config, const struct config_option *option,
                               const struct config_value *value, char *errmsg, size_t errmsg_size);

/* Append the value as YAML. */
void config_option_write(const struct config *config, const struct config_option *option,
                         struct buf *out);

/* Free what the field owns. */
void config_option_clear(struct config *config, const struct config_option *option);

#endif
