/* replay.c - a fuzz target as a test: its corpus, then some hundred inputs made from it, the same each time
 *
 * Linked in the place of libFuzzer where that is not there. What fuzzing finds is kept in the corpus, so it
 * is looked at in each run of the tests, also under sanitizers.
 */
#include <glib.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MADE = 400, INPUT_MAX_BYTES = 64 * 1024, SECONDS_MAX = 60 };

/* In an allocation of its own size, so that a sanitizer sees each byte beyond. */
static void
run(const GByteArray *input)
{
    g_autofree uint8_t *copy = g_malloc(MAX(input->len, 1U));
    if (input->len > 0)
        memcpy(copy, input->data, input->len);
    LLVMFuzzerTestOneInput(copy, input->len);
}

static gint
compare(gconstpointer a, gconstpointer b)
{
    return g_strcmp0(*(char *const *)a, *(char *const *)b);
}

static GPtrArray *
read_corpus(const char *name)
{
    GPtrArray *inputs = g_ptr_array_new_with_free_func((GDestroyNotify)g_byte_array_unref);
    g_autofree char *folder = g_build_filename(PH_TEST_SOURCE, "tests/fuzz/corpus", name, NULL);
    g_autoptr(GPtrArray) files = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *file;
    while (dir != NULL && (file = g_dir_read_name(dir)) != NULL)
        g_ptr_array_add(files, g_build_filename(folder, file, NULL));
    g_ptr_array_sort(files, compare);
    for (guint i = 0; i < files->len; i++) {
        char *bytes;
        gsize length;
        if (g_file_get_contents(files->pdata[i], &bytes, &length, NULL))
            g_ptr_array_add(inputs, g_byte_array_new_take((guint8 *)bytes, length));
    }
    return inputs;
}

static guint
any(GRand *random, guint limit)
{
    return limit > 0 ? (guint)g_rand_int_range(random, 0, (gint32)limit) : 0;
}

/* A piece of an input, put into another. */
static void
splice(GByteArray *input, const GByteArray *from, GRand *random)
{
    guint start = any(random, from->len);
    guint length = 1 + any(random, 64);
    length = MIN(length, from->len - start);
    guint at = any(random, input->len + 1);
    guint tail = input->len - at;
    if (length == 0 || input->len + length > INPUT_MAX_BYTES)
        return;
    g_autofree guint8 *piece = g_memdup2(from->data + start, length);
    g_byte_array_set_size(input, input->len + length);
    memmove(input->data + at + length, input->data + at, tail);
    memcpy(input->data + at, piece, length);
}

static void
change(GByteArray *input, const GPtrArray *corpus, GRand *random)
{
    static const guint8 odd[] = { 0, 1, 0x7f, 0x80, 0xff, '\r', '\n', '"', '(', ')', '%', '{' };
    guint at = any(random, input->len);
    guint length = 1 + any(random, 16);
    switch (any(random, 5)) {
    case 0:
        if (input->len > 0)
            input->data[at] ^= (guint8)(1U << any(random, 8));
        break;
    case 1:
        if (input->len > 0)
            input->data[at] = odd[any(random, G_N_ELEMENTS(odd))];
        break;
    case 2:
        if (input->len > 0)
            g_byte_array_remove_range(input, at, MIN(length, input->len - at));
        break;
    case 3:
        splice(input, input, random);
        break;
    case 4:
        splice(input, corpus->pdata[any(random, corpus->len)], random);
        break;
    }
}

int
main(int argc, char **argv)
{
    (void)argc;
    const char *name = strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 : argv[0];
    name += g_str_has_prefix(name, "lt-") ? 3 : 0;
    g_autoptr(GPtrArray) corpus = read_corpus(name);
    g_autoptr(GRand) random = g_rand_new_with_seed(1);
    alarm(SECONDS_MAX);
    for (guint i = 0; i < corpus->len; i++)
        run(corpus->pdata[i]);
    printf(
        "%sok 1 - %s: %u inputs of the corpus\n", corpus->len > 0 ? "" : "not ", name, corpus->len);
    for (guint i = 0; corpus->len > 0 && i < MADE; i++) {
        const GByteArray *base = corpus->pdata[any(random, corpus->len)];
        g_autoptr(GByteArray) input = g_byte_array_new();
        g_byte_array_append(input, base->data, MIN(base->len, (guint)INPUT_MAX_BYTES));
        for (guint n = 1 + any(random, 8); n > 0; n--)
            change(input, corpus, random);
        run(input);
    }
    printf("ok 2 - %s: %d inputs made from them\n1..2\n", name, MADE);
    return 0;
}
