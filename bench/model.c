/* model.c - the distributions that the load generators draw from */
#include "model.h"

#include <math.h>
#include <string.h>

/* -- tables ------------------------------------------------------------------------------------ */

ModelTable *
model_table_new(const double *weights, unsigned n)
{
    ModelTable *table = g_new0(ModelTable, 1);
    table->n = n;
    table->upto = g_new(double, n);
    double sum = 0;
    for (unsigned i = 0; i < n; i++)
        table->upto[i] = sum += weights[i];
    for (unsigned i = 0; i < n; i++)
        table->upto[i] /= sum;
    return table;
}

ModelTable *
model_table_new_zipf(unsigned n)
{
    g_autofree double *weights = g_new(double, n);
    for (unsigned i = 0; i < n; i++)
        weights[i] = 1.0 / (i + 1);
    return model_table_new(weights, n);
}

void
model_table_free(ModelTable *table)
{
    if (table == NULL)
        return;
    g_free(table->upto);
    g_free(table);
}

unsigned
model_table_draw(const ModelTable *table, GRand *random)
{
    double at = g_rand_double(random);
    unsigned low = 0;
    unsigned high = table->n - 1;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (table->upto[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

double
model_exponential(GRand *random, double mean)
{
    return -mean * log(1 - g_rand_double(random));
}

unsigned
model_geometric(GRand *random, double mean)
{
    if (mean <= 0)
        return 0;
    return (unsigned)floor(log(1 - g_rand_double(random)) / log(mean / (1 + mean)));
}

unsigned
model_uniform(GRand *random, unsigned from, unsigned to)
{
    return (unsigned)g_rand_int_range(random, (int)from, (int)to + 1);
}

/* -- the web's file set ------------------------------------------------------------------------ */

const double model_class_shares[MODEL_CLASSES] = { 0.35, 0.50, 0.14, 0.01 };
static const uint16_t smallest_sizes[MODEL_FILES] = {
    102,
    204,
    307,
    409,
    512,
    614,
    716,
    819,
    921,
};
/* From the most popular of a class to the least. */
static const uint8_t popularity[MODEL_FILES] = { 4, 3, 5, 2, 6, 1, 7, 8, 0 };

uint32_t
model_file_size(unsigned class, unsigned file)
{
    static const uint32_t step[MODEL_CLASSES] = { 0, 1024, 10240, 102400 };
    return class == 0 ? smallest_sizes[file] : step[class] * (file + 1);
}

unsigned
model_directories(unsigned connections)
{
    return (unsigned)floor(25 + 400000.0 / 122000.0 * connections / 5);
}

ModelFiles *
model_files_new(unsigned n_directories, const double shares[MODEL_CLASSES])
{
    ModelFiles *files = g_new0(ModelFiles, 1);
    files->directories = model_table_new_zipf(n_directories);
    files->classes = model_table_new(shares, MODEL_CLASSES);
    files->files = model_table_new_zipf(MODEL_FILES);
    return files;
}

void
model_files_free(ModelFiles *files)
{
    if (files == NULL)
        return;
    model_table_free(files->directories);
    model_table_free(files->classes);
    model_table_free(files->files);
    g_free(files);
}

ModelFile
model_files_draw(const ModelFiles *files, GRand *random)
{
    return (ModelFile){
        .directory = model_table_draw(files->directories, random),
        .class = model_table_draw(files->classes, random),
        .file = popularity[model_table_draw(files->files, random)],
    };
}

void
model_file_path(ModelFile file, char path[MODEL_PATH_LENGTH + 1])
{
    g_snprintf(
        path, MODEL_PATH_LENGTH + 1, "dir%05u/class%u_%u", file.directory, file.class, file.file);
}

GString *
model_file_make(ModelFile file)
{
    enum { LINE = 64 };
    size_t size = model_file_size(file.class, file.file);
    char path[MODEL_PATH_LENGTH + 1];
    model_file_path(file, path);
    GString *text = g_string_sized_new(size + LINE);
    g_string_printf(text, "%zu %s ", size, path);
    g_autoptr(GRand) random = g_rand_new_with_seed(
        (file.directory * MODEL_CLASSES + file.class) * MODEL_FILES + file.file);
    while (text->len < size) {
        bool at_end = text->len % LINE == LINE - 1;
        g_string_append_c(text, at_end ? '\n' : (char)g_rand_int_range(random, 'A', 'z' + 1));
    }
    g_string_truncate(text, size);
    if (file.class == 1 || file.class == 2) {
        g_autofree char *marker = g_strdup_printf("%s%s@", MODEL_MARKER, path);
        memcpy(text->str + 8 * LINE, marker, strlen(marker));
    }
    text->str[size - 1] = '\n';
    return text;
}

/* -- mail -------------------------------------------------------------------------------------- */

static const uint16_t size_kb[MODEL_SIZES] = { 1, 2, 3, 4, 5, 6, 10, 100, 1000, 2675 };
const double model_size_shares[MODEL_SIZES] = {
    0.1020,
    0.3071,
    0.2059,
    0.1078,
    0.0588,
    0.0374,
    0.0744,
    0.0979,
    0.0069,
    0.0018,
};
const double model_mime_shares[MODEL_MIMES] = { 0.55, 0.25, 0.15, 0.05 };

uint32_t
model_size_bytes(unsigned row)
{
    return (uint32_t)size_kb[row] * 1024;
}

ModelTable *
model_sizes_new(void)
{
    return model_table_new(model_size_shares, MODEL_SIZES);
}

/* One recipient: 85.73 %. The rest falls by a constant factor from 2 to 20, such that the mean is 2. */
ModelTable *
model_recipients_new(void)
{
    const double one = 0.8573;
    const double factor = 0.899;
    double weights[MODEL_RECIPIENTS_MAX] = { one };
    double sum = 0;
    for (unsigned i = 1; i < MODEL_RECIPIENTS_MAX; i++)
        sum += pow(factor, i - 1);
    for (unsigned i = 1; i < MODEL_RECIPIENTS_MAX; i++)
        weights[i] = (1 - one) * pow(factor, i - 1) / sum;
    return model_table_new(weights, MODEL_RECIPIENTS_MAX);
}
