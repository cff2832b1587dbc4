/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot-model MODEL [name=value ...]: search one model with some of its options changed.
 *   trace=1    print the counterexample step by step     states=N  millions of states at most
 * foliot-model list: every step and rule with the function of the product that implements it.
 * Exit status: 0 it holds, 1 violated, 2 too many states or wrong usage.
 */
#include "tests/model/models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int states_millions = 30;
static int is_traced;

static const struct model_option COMMON[] = {
    {"states", &states_millions, "millions of states at most", NULL},
    {"trace", &is_traced, "print the counterexample", NULL},
    {NULL, NULL, NULL, NULL},
};

static const struct model *const MODELS[] = {&model_batch, &model_load, &model_own, &model_order};

static const struct model *find_model(const char *name)
{
    for (size_t i = 0; i < sizeof(MODELS) / sizeof(MODELS[0]); i++) {
        if (strcmp(MODELS[i]->name, name) == 0) {
            return MODELS[i];
        }
    }
    return NULL;
}

static bool set_option(const struct model_option *options, const char *word)
{
    const char *equals = strchr(word, '=');

    for (; equals != NULL && options->name != NULL; options++) {
        size_t len = (size_t)(equals - word);

        if (strlen(options->name) == len && strncmp(options->name, word, len) == 0) {
            *options->value = (int)strtol(equals + 1, NULL, 0);
            return true;
        }
    }
    return false;
}

static void list_model(const struct model *model)
{
    for (const struct model_step *step = model->steps; step->text != NULL; step++) {
        printf("%s|step|%s|%s\n", model->name, step->text, step->code);
    }
    for (const struct model_option *option = model->options; option->name != NULL; option++) {
        printf("%s|%s|%s|%s\n", model->name, option->name, option->text,
               option->code == NULL ? "-" : option->code);
    }
}

int main(int argc, char **argv)
{
    const struct model *model;

    if (argc == 2 && strcmp(argv[1], "list") == 0) {
        for (size_t i = 0; i < sizeof(MODELS) / sizeof(MODELS[0]); i++) {
            list_model(MODELS[i]);
        }
        return 0;
    }
    model = argc < 2 ? NULL : find_model(argv[1]);
    if (model == NULL) {
        (void)fprintf(stderr, "usage: foliot-model list | MODEL [name=value ...]\n");
        return 2;
    }
    for (int i = 2; i < argc; i++) {
        if (!set_option(model->options, argv[i]) && !set_option(COMMON, argv[i])) {
            (void)fprintf(stderr, "foliot-model: no option '%s' in model %s\n", argv[i],
                          model->name);
            return 2;
        }
    }
    return (int)explore_run(model, (size_t)states_millions * 1000000U, is_traced != 0);
}
