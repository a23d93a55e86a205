export type Json = null | boolean | number | string | readonly Json[] | JsonObject

export interface JsonObject {
  readonly [name: string]: Json
}

/**
 * Returns whether a value is a list. Unlike `Array.isArray`, this narrows a read-only list to a read-only
 * list.
 */
export function isList<T>(value: T): value is Extract<T, readonly unknown[]> {
  return Array.isArray(value)
}

/** Parses a text as JSON; undefined if the text is not valid JSON. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
