/** Reads parts of JSON of unknown form. */

/** Returns the fields of an object; none of another value. */
export const fieldsOf = (value: unknown) =>
  (typeof value === 'object' && value !== null ? value : {}) as Readonly<Record<string, unknown>>

/** Returns a text; the empty text for another value. */
export const textOf = (value: unknown) => (typeof value === 'string' ? value : '')

/** JSON can have numbers such as 1e999, which are infinite here. */
export const isNumber = (value: unknown): value is number => Number.isFinite(value)
