/* main.c - the program is a thin shell around libposthouse */
#include "command/command.h"

int
main(int argc, char **argv)
{
    return ph_main(argc, argv);
}
