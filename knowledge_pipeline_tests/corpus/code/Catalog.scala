package com.example.catalog

import scala.collection.mutable
import scala.util.{Failure, Success => Ok}

/** Something that is sold. */
case class Product(name: String, price: BigDecimal)

trait Finder[A] extends AutoCloseable {
  def find(name: String): Option[A]

  def has(name: String): Boolean = find(name).isDefined
}

/**
 * Holds products.
 */
@deprecated("use Store", "1.0")
class Catalog(limit: Int) extends Base(limit) with Finder[Product] {
  private val products = mutable.Map.empty[String, Product]

  /** Finds a product by name. */
  override def find(name: String): Option[Product] = {
    if (name.isEmpty || limit == 0) {
      None
    } else {
      products.get(name) match {
        case Some(product) => Some(product)
        case None => None
      }
    }
  }

  def close(): Unit = {
    for (product <- products.values) {
      println(product)
    }
  }
}

object Catalog {
  val Limit = 10

  def apply(): Catalog = new Catalog(Limit)
}

enum Color {
  case Red, Green
}
