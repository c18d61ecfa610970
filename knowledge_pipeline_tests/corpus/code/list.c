/* A linked list. */
#ifndef LIST_H
#define LIST_H

#include <stdio.h>
#include "node.h"

#define MAX_NODES 128
#define SQUARE(x) ((x) * (x))

typedef struct list {
    struct node *head;
    size_t length;
} list_t;

enum order { ASCENDING, DESCENDING };

struct pair {
    int left, right;
};

static int compare(const void *a, const void *b);

/* Appends a value. */
int list_push(list_t *list, int value)
{
    if (list == NULL || list->length >= MAX_NODES) {
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        list->length++;
    }
    return 0;
}

static char *list_name(void)
{
    return "list";
}

#ifdef DEBUG
void list_print(const list_t *list)
{
    switch (list->length) {
    case 0:
        puts("empty");
        break;
    default:
        printf("%zu\n", list->length);
    }
}
#endif

#endif
