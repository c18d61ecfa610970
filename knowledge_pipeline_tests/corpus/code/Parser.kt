package com.example.parser

import java.io.File
import kotlin.math.max as larger

const val LIMIT = 10

typealias Tokens = List<Token>

/** A piece of text. */
data class Token(val text: String, val line: Int)

interface Visitor<T> : Closeable {
    fun visit(token: Token): T
    fun done(): Boolean = true
}

enum class Kind { WORD, NUMBER }

sealed class Node

object Registry : Visitor<Int> {
    override fun visit(token: Token): Int {
        return token.line
    }
}

/**
 * Turns text into tokens.
 */
@Deprecated("use Scanner")
class Parser(private val file: File) : Base(file), Visitor<Int> {
    private val tokens = mutableListOf<Token>()

    constructor(path: String) : this(File(path))

    /** Reads the whole file. */
    @Throws(IOException::class)
    suspend fun parse(): Tokens {
        for (line in file.readLines()) {
            if (line.isBlank() || line.startsWith("#")) {
                continue
            }
            when (line.length) {
                0 -> return tokens
                else -> tokens.add(Token(line, larger(0, tokens.size)))
            }
        }
        return tokens
    }

    companion object {
        fun of(path: String) = Parser(path)
    }
}

fun String.tokens(): Tokens = split(" ").map { Token(it, 0) }

fun main() {
    println("Größe".tokens())
}
