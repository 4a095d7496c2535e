/* test-runtime-file.c - files below a folder, and files of lines */
#include "posthouse/beneath.h"
#include "runtime/log-file.h"

#include "tests/support/test-client.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- beneath ----------------------------------------------------------------------------------- */

typedef struct Tree {
    char *folder;
    int fd; /* of "inside" */
} Tree;

static void
put(const Tree *tree, const char *path, const char *text)
{
    g_autofree char *full = g_build_filename(tree->folder, path, NULL);
    g_assert_true(g_file_set_contents(full, text, -1, NULL));
}

static void
put_link(const Tree *tree, const char *path, const char *target)
{
    g_autofree char *full = g_build_filename(tree->folder, path, NULL);
    g_assert_cmpint(symlink(target, full), ==, 0);
}

static Tree
tree_new(void)
{
    Tree tree = { .folder = test_folder_new() };
    g_autofree char *inside = g_build_filename(tree.folder, "inside", NULL);
    g_autofree char *sub = g_build_filename(inside, "sub", NULL);
    g_assert_cmpint(g_mkdir(inside, 0700), ==, 0);
    g_assert_cmpint(g_mkdir(sub, 0700), ==, 0);
    put(&tree, "secret", "secret");
    put(&tree, "inside/a", "a");
    put(&tree, "inside/sub/b", "b");
    put_link(&tree, "inside/good", "sub/b");
    put_link(&tree, "inside/sub/up", "../a");
    put_link(&tree, "inside/out", "../secret");
    put_link(&tree, "inside/absolute", inside);
    put_link(&tree, "inside/loop", "loop");
    g_autoptr(GError) error = NULL;
    tree.fd = ph_open_folder(inside, 0, &error);
    g_assert_no_error(error);
    return tree;
}

static void
tree_clear(Tree *tree)
{
    close(tree->fd);
    test_folder_free(tree->folder);
}

static void
test_beneath(void)
{
    static const struct {
        const char *path;
        const char *text; /* null: refused */
    } rows[] = {
        { "a", "a" },
        { "sub/b", "b" },
        { "good", "b" },
        { "sub/up", "a" },
        { "sub/../a", "a" },
        { "missing", NULL },
        { "a/b", NULL },
        { "out", NULL },
        { "../secret", NULL },
        { "sub/../../secret", NULL },
        { "absolute/a", NULL },
        { "loop", NULL },
        { "/etc/passwd", NULL },
        { "", NULL },
    };
    Tree tree = tree_new();
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        int fd = ph_open_beneath(tree.fd, rows[i].path, 0, &error);
        if ((fd >= 0) != (rows[i].text != NULL))
            g_test_message("%s", rows[i].path);
        g_assert_cmpint(fd >= 0, ==, rows[i].text != NULL);
        if (fd < 0) {
            g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
            continue;
        }
        char text[8] = "";
        g_assert_cmpint(read(fd, text, sizeof(text) - 1), ==, strlen(rows[i].text));
        g_assert_cmpstr(text, ==, rows[i].text);
        g_assert_cmpint(fcntl(fd, F_GETFD) & FD_CLOEXEC, !=, 0);
        close(fd);
    }
    tree_clear(&tree);
}

/* What was opened a moment ago is in the kernel's memory. */
static void
test_beneath_cached(void)
{
    Tree tree = tree_new();
    g_autoptr(GError) error = NULL;
    close(ph_open_beneath(tree.fd, "sub/b", 0, NULL));
    int fd = ph_open_beneath(tree.fd, "sub/b", PH_BENEATH_CACHED, &error);
    g_assert_no_error(error);
    close(fd);
    tree_clear(&tree);
}

static void
test_folder(void)
{
    Tree tree = tree_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *file = g_build_filename(tree.folder, "secret", NULL);
    g_assert_cmpint(ph_open_folder(file, 0, &error), ==, -1);
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    tree_clear(&tree);
}

/* -- files of lines ---------------------------------------------------------------------------- */

static char *
contents(const char *path)
{
    char *text = NULL;
    g_file_get_contents(path, &text, NULL, NULL);
    return text != NULL ? text : g_strdup("");
}

static bool
has(const char *path, const char *expected)
{
    g_autofree char *text = contents(path);
    return strcmp(text, expected) == 0;
}

static void
test_log_needs_folder(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(ph_log_file_open("x.log", &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE);
}

static void
test_log(void)
{
    char *folder = test_folder_new();
    g_autofree char *path = g_build_filename(folder, "x.log", NULL);
    g_autofree char *old = g_build_filename(folder, "old.log", NULL);
    g_autoptr(GError) error = NULL;
    ph_log_files_set_folder(folder);
    PhLogFile *file = ph_log_file_open("x.log", &error);
    g_assert_no_error(error);
    ph_log_file_write(file, "one\n", 4);
    ph_log_file_write(file, "two\n", 4);
    test_wait_for(has(path, "one\ntwo\n"));

    /* On request, at once. */
    g_assert_cmpint(g_rename(path, old), ==, 0);
    ph_log_files_reopen();
    test_wait_for(g_file_test(path, G_FILE_TEST_EXISTS));
    ph_log_file_write(file, "three\n", 6);
    test_wait_for(has(path, "three\n"));
    g_assert_true(has(old, "one\ntwo\n"));

    /* Without, after a second. */
    g_assert_cmpint(g_rename(path, old), ==, 0);
    g_usleep(1100 * 1000);
    ph_log_file_write(file, "four\n", 5);
    test_wait_for(has(path, "four\n"));

    /* Closing writes what waits. */
    ph_log_file_write(file, "five\n", 5);
    ph_log_file_close(file);
    g_assert_true(has(path, "four\nfive\n"));
    ph_log_files_stop();
    test_folder_free(folder);
}

/* A flood: lines are whole, in order, and what is not there was counted. */
static void
test_log_flood(void)
{
    enum { LINES = 300000 };
    char *folder = test_folder_new();
    g_autofree char *path = g_build_filename(folder, "x.log", NULL);
    ph_log_files_set_folder(folder);
    PhLogFile *file = ph_log_file_open("x.log", NULL);
    g_autofree char *filler = g_strnfill(90, 'x');
    for (int i = 0; i < LINES; i++) {
        char line[128];
        int length = g_snprintf(line, sizeof(line), "%d %s\n", i, filler);
        ph_log_file_write(file, line, (size_t)length);
    }
    uint64_t dropped = ph_log_file_dropped(file);
    ph_log_file_close(file);
    ph_log_files_stop();

    g_autofree char *text = contents(path);
    uint64_t found = 0;
    uint64_t told = 0;
    int last = -1;
    const char *end = text + strlen(text);
    for (const char *line = text; line < end;) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        g_assert_nonnull(line_end);
        if (line[0] == '#') {
            told += g_ascii_strtoull(line + 2, NULL, 10);
        } else {
            int number = (int)g_ascii_strtoll(line, NULL, 10);
            g_assert_cmpint(number, >, last);
            g_assert_cmpint(line_end - line, >, 90);
            last = number;
            found++;
        }
        line = line_end + 1;
    }
    g_assert_cmpuint(found + dropped, ==, LINES);
    g_assert_cmpuint(told, ==, dropped);
    test_folder_free(folder);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/runtime-file/beneath/table", test_beneath);
    g_test_add_func("/runtime-file/beneath/cached", test_beneath_cached);
    g_test_add_func("/runtime-file/beneath/folder", test_folder);
    g_test_add_func("/runtime-file/log/needs-folder", test_log_needs_folder);
    g_test_add_func("/runtime-file/log/lines", test_log);
    g_test_add_func("/runtime-file/log/flood", test_log_flood);
    return g_test_run();
}
