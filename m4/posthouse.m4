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
