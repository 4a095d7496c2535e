/* model.h - the distributions that the load generators draw from
 *
 * Shape:    tables of shares; the web file set (36 files a directory in four classes); recipients,
 *           sizes and structures of mail.
 * Units:    bytes; shares sum to 1.
 * Threads:  one.
 * Sources:  public descriptions of web and mail server workloads; what is a choice of ours says so.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* -- tables ------------------------------------------------------------------------------------ */

/* Draws i with a probability in proportion to weight i. */
typedef struct ModelTable {
    unsigned n;
    double *upto; /* sum of the weights of 0 ... i, divided by that of all */
} ModelTable;

ModelTable *model_table_new(const double *weights, unsigned n);
/* Weight 1 / (i + 1): popularity after Zipf. */
ModelTable *model_table_new_zipf(unsigned n);
void model_table_free(ModelTable *table);
unsigned model_table_draw(const ModelTable *table, GRand *random);

double model_exponential(GRand *random, double mean);
/* 0, 1, 2 ... with that mean. */
unsigned model_geometric(GRand *random, double mean);
/* Both ends included. */
unsigned model_uniform(GRand *random, unsigned from, unsigned to);

/* -- the web's file set ------------------------------------------------------------------------ */

enum { MODEL_CLASSES = 4, MODEL_FILES = 9, MODEL_DIRECTORY_FILES = MODEL_CLASSES * MODEL_FILES };
enum { MODEL_DIRECTORY_BYTES = 5119484, MODEL_PATH_LENGTH = 17 };

typedef struct ModelFile {
    unsigned directory;
    unsigned class;
    unsigned file;
} ModelFile;

typedef struct ModelFiles {
    ModelTable *directories;
    ModelTable *classes;
    ModelTable *files;
} ModelFiles;

ModelFiles *model_files_new(unsigned n_directories, const double shares[MODEL_CLASSES]);
void model_files_free(ModelFiles *files);
ModelFile model_files_draw(const ModelFiles *files, GRand *random);
uint32_t model_file_size(unsigned class, unsigned file);
extern const double model_class_shares[MODEL_CLASSES];
/* How many directories belong to so many connections. */
unsigned model_directories(unsigned connections);
/* "dirNNNNN/classX_Y" */
void model_file_path(ModelFile file, char path[MODEL_PATH_LENGTH + 1]);
/* The bytes of a file: printable characters in lines of 64 bytes, the first with size and path. Files
 * of the classes 1 and 2 have a marker with a path in it, "@ad:dirNNNNN/classX_Y@". */
GString *model_file_make(ModelFile file);
#define MODEL_MARKER "@ad:"

/* -- mail -------------------------------------------------------------------------------------- */

enum { MODEL_RECIPIENTS_MAX = 20, MODEL_SIZES = 10 };

extern const double model_size_shares[MODEL_SIZES];
/* Bytes of the row, of 1024 each KB. */
uint32_t model_size_bytes(unsigned row);
/* How likely 1 ... 20 recipients are, at i - 1. */
ModelTable *model_recipients_new(void);
ModelTable *model_sizes_new(void);

/* What a message is made of: one text; text and HTML; with 1 to 3 files; with HTML that has pictures,
 * beside its text, and a file. */
typedef enum ModelMime {
    MODEL_MIME_TEXT,
    MODEL_MIME_ALTERNATIVE,
    MODEL_MIME_MIXED,
    MODEL_MIME_NESTED,
    MODEL_MIMES,
} ModelMime;
extern const double model_mime_shares[MODEL_MIMES];
