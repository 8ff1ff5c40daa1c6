// Arranges the heap for an image, so that a job writes to few of its pages. Part of engine.c, whose structures it
// needs.
//
// A page that a job writes to is copied for the job and restored afterwards. Without this step, a new object would fill
// any hole that the creation of the image left, each on another page, and the first use of a built-in function would
// write to the object that holds it.

// Bytes for the first small blocks of a job, for each block size; a few pages in total.
#define FIRST_ROOM 768

// Creates all built-in functions, which the engine would otherwise create on first access. Prototypes of functions are
// not created, since most are never used.
static int settle_built_ins(JSContext *ctx)
{
    struct list_head *el;
    // Objects created here are appended to the list and are visited as well.
    list_for_each(el, &ctx->rt->gc_obj_list) {
        JSGCObjectHeader *header = list_entry(el, JSGCObjectHeader, link);
        if (JS_GC_TYPE(header) != JS_GC_OBJ_TYPE_JS_OBJECT)
            continue;
        JSObject *object = (JSObject *)header;
        for (int i = 0; i < object->shape->prop_count; i++) {
            JSShapeProperty *shape = &get_shape_prop(object->shape)[i];
            JSProperty *property = &object->prop[i];
            if ((shape->flags & JS_PROP_TMASK) != JS_PROP_AUTOINIT ||
                js_autoinit_get_id(property) == JS_AUTOINIT_ID_PROTOTYPE)
                continue;
            if (JS_AutoInitProperty(ctx, object, shape->atom, property, shape))
                return -1;
        }
    }
    return 0;
}

// Keeps new blocks out of arenas that have old ones. Such an arena is in no list, like a full one. Its link points to
// itself, so that the engine can unlink it when it is empty. Each block size gets a new arena.
static void settle_arenas(JSRuntime *rt)
{
    for (int class = 0; class < JS_ARENA_BLOCK_SIZE_COUNT; class++) {
        struct list_head *head = &rt->arena_state.free_arena_list[class], *el, *next;
        list_for_each_safe(el, next, head) {
            list_del(el);
            init_list_head(el);
        }
    }
    for (int class = 0; class < JS_ARENA_BLOCK_SIZE_COUNT; class++) {
        int size = arena_block_sizes[class];
        int blocks = FIRST_ROOM / size > 2 ? FIRST_ROOM / size : 2;
        JSArena *arena = rt->mf.js_malloc(NULL, sizeof *arena + (size_t)blocks * size);
        if (!arena)
            return;
        arena->block_size_idx = class;
        // One block more than there is, always in use, so that the arena is never empty and never freed.
        arena->n_blocks = blocks + 1;
        arena->n_used_blocks = 1;
        arena->first_free_block = 0;
        for (int i = 0; i < blocks; i++) {
            JSMallocBlockHeader *block = arena_get_block(arena, i, size);
            block->u.free_next = i + 1 < blocks ? i + 1 : JS_ARENA_FREE_NIL;
            block->block_size_idx = class;
        }
        list_add(&arena->link, &rt->arena_state.arena_list[class]);
        list_add(&arena->free_link, &rt->arena_state.free_arena_list[class]);
    }
}

int engine_settle(JSContext *ctx)
{
    if (settle_built_ins(ctx))
        return -1;
    JS_RunGC(ctx->rt);
    memory_settle();
    settle_arenas(ctx->rt);
    return 0;
}
