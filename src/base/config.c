/* Settings: numbers, which may be written with a unit (64KiB, 1MiB, 2GiB), and texts. */
#include "base/config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static const tfos_setting settings[] = {
#define SETTING(name, key, fallback, least, most, text) {key, "TFOS_" #name, NULL, fallback, least, most, text},
    TFOS__SETTING_MAP(SETTING)
#undef SETTING
#define SETTING(name, key, form, text) {key, "TFOS_" #name, form, 0, 0, 0, text},
        TFOS__TEXT_SETTING_MAP(SETTING)
#undef SETTING
};

enum { SETTING_COUNT = sizeof settings / sizeof settings[0] };

size_t tfos_setting_count(void)
{
    return SETTING_COUNT;
}

const tfos_setting *tfos_setting_at(size_t index)
{
    assert(index < SETTING_COUNT);
    return &settings[index];
}

tfos_status tfos_number_parse(const char *text, int64_t *out, tfos_error *error)
{
    static const struct {
        const char *unit;
        int64_t factor;
    } units[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0] && end != text && errno == 0; i++) {
        int64_t product;
        if (strcmp(end, units[i].unit) == 0 && !__builtin_mul_overflow(number, units[i].factor, &product)) {
            *out = product;
            return TFOS_OK;
        }
    }
    return tfos__fail(error, TFOS_INVALID,
                      "expected a whole number, with KiB, MiB or GiB behind it if wanted, found '%s'",
                      tfos__printable_text(text).text);
}

static tfos_status check(const tfos_setting *setting, const char *where, int64_t value, tfos_error *error)
{
    if (value < setting->least || value > setting->most) {
        return tfos__fail(error, TFOS_INVALID, "%s must be from %lld to %lld, found %lld", where,
                          (long long)setting->least, (long long)setting->most, (long long)value);
    }
    return TFOS_OK;
}

tfos_status tfos__setting_choose(tfos__setting which, int64_t given, int64_t unset, int64_t *out, tfos_error *error)
{
    const tfos_setting *setting = &settings[which];
    int64_t value = given;
    if (given != unset) {
        const char *option = strchr(setting->key, '.') + 1;
        TFOS_TRY(check(setting, option, value, error));
    } else {
        const char *text = getenv(setting->environment);
        value = setting->fallback;
        if (text != NULL && text[0] != '\0') {
            tfos_status status = tfos_number_parse(text, &value, error);
            if (status != TFOS_OK) {
                tfos__error_prefix(error, "the environment variable %s", setting->environment);
                return status;
            }
        }
        TFOS_TRY(check(setting, setting->environment, value, error));
    }
    *out = value;
    return TFOS_OK;
}

static const tfos_setting *find(const char *key, size_t bytes)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (strlen(settings[i].key) == bytes && memcmp(settings[i].key, key, bytes) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

/* The value in a list of key=value; NULL when it is not there. */
static const char *find_given(const tfos_setting *setting, const char *const *given)
{
    const char *found = NULL;
    size_t bytes = strlen(setting->key);
    for (size_t i = 0; given != NULL && given[i] != NULL; i++) {
        if (strncmp(given[i], setting->key, bytes) == 0 && given[i][bytes] == '=') {
            found = given[i] + bytes + 1;
        }
    }
    return found;
}

const char *tfos__setting_text(tfos__setting which, const char *const *given)
{
    const tfos_setting *setting = &settings[which];
    const char *found = find_given(setting, given);
    assert(setting->form != NULL);
    return found != NULL ? found : getenv(setting->environment);
}

tfos_status tfos__setting_number(tfos__setting which, const char *const *given, int64_t *out, tfos_error *error)
{
    const tfos_setting *setting = &settings[which];
    const char *text = find_given(setting, given);
    int64_t value;
    if (text == NULL) {
        return tfos__setting_choose(which, 0, 0, out, error);
    }
    TFOS_TRY(tfos_number_parse(text, &value, error));
    TFOS_TRY(check(setting, setting->key, value, error));
    *out = value;
    return TFOS_OK;
}

static tfos_status check_number(const tfos_setting *setting, const char *text, size_t bytes, tfos_error *error)
{
    char copy[64];
    int64_t value;
    size_t copied = bytes < sizeof copy - 1 ? bytes : sizeof copy - 1;
    memcpy(copy, text, copied);
    copy[copied] = '\0';
    tfos_status status = tfos_number_parse(copy, &value, error);
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "the setting %s", setting->key);
        return status;
    }
    return check(setting, setting->key, value, error);
}

static tfos_status split(const char *assignment, size_t count, const tfos_setting **setting, const char **value,
                         size_t *bytes, tfos_error *error)
{
    const char *equals = memchr(assignment, '=', count);
    if (equals == NULL) {
        return tfos__fail(error, TFOS_INVALID, "expected a setting as key=value, found '%s'",
                          tfos__printable_of(assignment, count).text);
    }
    *setting = find(assignment, (size_t)(equals - assignment));
    if (*setting == NULL) {
        return tfos__fail(error, TFOS_INVALID, "there is no setting '%s'; `tfos config` lists them",
                          tfos__printable_of(assignment, (size_t)(equals - assignment)).text);
    }
    *value = equals + 1;
    *bytes = count - (size_t)(equals + 1 - assignment);
    return (*setting)->form == NULL ? check_number(*setting, *value, *bytes, error) : TFOS_OK;
}

tfos_status tfos__setting_check(const char *assignment, size_t count, tfos_error *error)
{
    const tfos_setting *setting;
    const char *value;
    size_t bytes;
    return split(assignment, count, &setting, &value, &bytes, error);
}

tfos_status tfos__setting_assign(const char *assignment, size_t count, tfos_error *error)
{
    const tfos_setting *setting;
    const char *value;
    size_t bytes;
    TFOS_TRY(split(assignment, count, &setting, &value, &bytes, error));
    char *text = strndup(value, bytes);
    if (text == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    int code = setenv(setting->environment, text, 1);
    free(text);
    if (code != 0) {
        return tfos__fail_errno(error, errno, "cannot set the environment variable %s", setting->environment);
    }
    return TFOS_OK;
}
