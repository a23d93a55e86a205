import { invalid, quote, type Reader, reader, refuseValue } from './record.ts'

/** Reads a list of `min` to `max` elements, each by `read`. */
export function list<T extends object | string>(
  read: Reader<T>,
  max: number,
  min: number = 0,
): Reader<readonly T[]> {
  const schema = { type: 'array', items: read.schema, minItems: min, maxItems: max }
  return reader(schema, (value, place) => {
    if (!Array.isArray(value)) return refuseValue(place, 'type', `${quote(value)} is not a list`)
    if (value.length > max) return refuseValue(place, 'too_many', `has ${value.length}; ${max} are allowed`)
    if (value.length < min) return refuseValue(place, 'required', `has ${value.length}; ${min} are needed`)
    const items = value.map((item, index) => read(item, { ...place, path: `${place.path}.${index}` }))
    const good = items.filter((item): item is T => item !== invalid)
    return good.length < items.length ? invalid : good
  })
}
