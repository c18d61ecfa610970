import type { Request, Response } from 'express';
import { inject as provide, Injectable } from '@angular/core';
import axios from "axios";

export type UserId = string & { readonly brand: unique symbol };

/** Somebody who can log in. */
export interface User extends Named, Dated {
  id: UserId;
  greet(other: User): string;
}

export enum Role {
  Admin = 'admin',
  Guest = 'guest',
}

@Injectable({ providedIn: 'root' })
export abstract class Users<T extends User> extends Service implements Finder<T>, Disposable {
  private readonly cache = new Map<UserId, T>();

  constructor(private readonly url: string) {
    super();
  }

  /** Finds one user. */
  @log()
  async find(id: UserId): Promise<T | undefined> {
    const known = this.cache.get(id) ?? (await axios.get(`${this.url}/${id}`)).data;
    switch (known?.role) {
      case Role.Admin:
        return known;
      default:
        return undefined;
    }
  }

  abstract load(): Promise<void>;
}

export function parse(text: string): User;
export function parse(text: string, strict = true): User {
  return JSON.parse(text) as User;
}

export namespace Errors {
  export class NotFound extends Error {}
}

declare module 'legacy' {
  export function old(): void;
}

export const toLabel = (user: User): string => user.id || 'nobody';
