'use strict';
/**
 * A shopping cart.
 * @module cart
 */
import fs, { readFile as read } from 'node:fs';
import * as path from 'node:path';
const lodash = require('lodash');

export const TAX_RATE = 0.19;

/** An item that can be bought. */
export class Item extends Product {
  static count = 0;
  #price = 1;

  constructor(name, price) {
    super(name);
    this.#price = price;
  }

  get price() {
    return this.#price;
  }

  onClick = (event) => {
    event.preventDefault();
  };
}

// Adds everything up.
export function total(items, discount = 0) {
  let sum = 0;
  for (const item of items) {
    if (item.price > 0 && !item.free) {
      sum += item.price;
    } else if (item.broken) {
      continue;
    }
  }
  return sum > 100 ? sum - discount : sum;
}

const format = async (amount) => {
  return `${lodash.round(amount, 2)} €`;
};

function* pages(items) {
  yield items.slice(0, 10);
}

Cart.prototype.clear = function () {
  this.items = [];
};

module.exports = {
  total,
  render(cart) {
    return read(path.join('cart', cart.name));
  },
};

export default class extends Item {}
