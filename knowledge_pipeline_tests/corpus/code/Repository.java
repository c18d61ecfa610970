package com.example.store;

import java.util.List;
import java.util.Optional;
import static java.util.Objects.requireNonNull;

/**
 * Keeps entities.
 */
@Service
public class Repository<T extends Entity> extends Base<T> implements Finder<T>, AutoCloseable {
    public static final int LIMIT = 100;
    private final List<T> entities;

    static {
        System.loadLibrary("store");
    }

    public Repository(List<T> entities) {
        this.entities = requireNonNull(entities);
    }

    /** Finds an entity by its id. */
    @Override
    public Optional<T> find(String id) {
        for (T entity : entities) {
            if (entity.id().equals(id) || entity.alias().equals(id)) {
                return Optional.of(entity);
            }
        }
        return Optional.empty();
    }

    @Override
    public void close() {
        while (!entities.isEmpty()) {
            entities.remove(0);
        }
    }

    private static class Cursor {
        int position;
    }
}

interface Finder<T> {
    Optional<T> find(String id);

    default boolean has(String id) {
        return find(id).isPresent();
    }
}

enum Color {
    RED, GREEN;

    Color next() {
        return this == RED ? GREEN : RED;
    }
}

record Point(int x, int y) {
    Point {
        if (x < 0) throw new IllegalArgumentException();
    }
}

@interface Marker {
    String value();
}
