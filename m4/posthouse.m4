dnl posthouse.m4 - macros of Posthouse's configure.ac

dnl PH_DEPENDENCY(variable, pkg-config request, Debian package, Fedora package)
dnl A library that is missing is remembered for PH_DEPENDENCIES_DONE.
AC_DEFUN([PH_DEPENDENCY], [
PKG_CHECK_MODULES([$1], [$2], [:], [
  ph_missing="$ph_missing
    $2: Debian $3, Fedora $4"
  ph_debian="$ph_debian $3"
  ph_fedora="$ph_fedora $4"])])

dnl PH_DEPENDENCIES_DONE
dnl Stops with one message that names all that is missing.
AC_DEFUN([PH_DEPENDENCIES_DONE], [
AS_IF([test -n "$ph_missing"], [AC_MSG_ERROR([these libraries are missing or too old:
$ph_missing

  Debian: apt install$ph_debian pkg-config
  Fedora: dnf install$ph_fedora pkgconf-pkg-config])])])

dnl PH_ADD_FLAGS(variable, flags)
dnl Appends each flag that the compiler takes without complaint.
AC_DEFUN([PH_ADD_FLAGS], [
for ph_flag in $2; do
  AC_MSG_CHECKING([whether $CC takes $ph_flag])
  ph_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $ph_flag"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM()],
    [AC_MSG_RESULT([yes]); $1="$$1 $ph_flag"],
    [AC_MSG_RESULT([no])])
  CFLAGS=$ph_save_CFLAGS
done])

dnl PH_REQUIRE_FLAG(flag, complaint)
AC_DEFUN([PH_REQUIRE_FLAG], [
ph_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS -Werror $1"
AC_LINK_IFELSE([AC_LANG_PROGRAM()], [], [AC_MSG_ERROR([$2])])
CFLAGS=$ph_save_CFLAGS])

dnl PH_CONSOLE
dnl A release brings the console's bundle; a clone makes it with Node.js 18 or later and npm.
AC_DEFUN([PH_CONSOLE], [
AC_PATH_PROG([GLIB_COMPILE_RESOURCES], [glib-compile-resources])
AS_IF([test -z "$GLIB_COMPILE_RESOURCES"], [AC_MSG_ERROR([glib-compile-resources is missing:
  Debian: apt install libglib2.0-dev-bin
  Fedora: dnf install glib2-devel])])
AC_PATH_PROGS([NODE], [node nodejs])
AC_PATH_PROG([NPM], [npm])
AC_MSG_CHECKING([what the console is made from])
AS_IF([test -f "$srcdir/admin-ui/bundle/admin-ui.gresource.xml"],
  [ph_console=bundle
   AC_MSG_RESULT([the bundle of this release])],
  [AS_IF([test -n "$NODE" && test -n "$NPM" && "$NODE" -e 'process.exit(parseInt(process.versions.node, 10) < 18 ? 1 : 0)'],
    [ph_console=npm
     AC_MSG_RESULT([its sources, by $NPM])],
    [AC_MSG_RESULT([nothing])
     AC_MSG_ERROR([the console cannot be made: a clone needs Node.js 18 or later with npm
(a release archive brings the console ready-made and needs neither):

  Debian: apt install nodejs npm
  Fedora: dnf install nodejs npm])])])
AM_CONDITIONAL([CONSOLE_BUNDLED], [test "$ph_console" = bundle])])
