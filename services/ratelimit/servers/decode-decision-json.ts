import { maxCount } from '../counters/counters.ts'
import { type DecisionRequest, type DescriptorRequest, maxParts, RequestError } from '../limiter/decision.ts'
import type { DescriptorEntry } from '../rules/match.ts'
import type { Unit } from '../rules/units.ts'
import { defineFields, JsonReader, printableText } from './json-reader.ts'
import { overrideUnitNumbers, overrideUnits } from './wire-enums.ts'

const requestFields = defineFields('domain', 'descriptors', 'hitsAddend')
const descriptorFields = defineFields('entries', 'limit', 'hitsAddend', 'isNegativeHits')
const entryFields = defineFields('key', 'value')
const limitFields = defineFields('requestsPerUnit', 'unit')
const maxUint32 = 0xffff_ffff
const maxUint64 = 2n ** 64n - 1n
const maxInt32 = 0x7fff_ffff

/**
 * Decodes a request from proto3 JSON, with the same result as `toDecisionRequest(fromJsonString(...))` but
 * without the messages in between: both spellings of a field's name are accepted, numbers may be strings, and
 * null means unset. An unknown name is rejected, and so is a name that occurs twice, even in different
 * spellings.
 *
 * @throws RequestError that names the field, for invalid requests, JSON or UTF-8, and as soon as there are
 * more than `maxParts` descriptors and entries
 */
export function decodeDecisionJson(body: Buffer): DecisionRequest {
  const reader = new JsonReader(body)
  const request = readRequest(reader)
  reader.end()
  return request
}

function readRequest(reader: JsonReader): DecisionRequest {
  let domain = ''
  let descriptors: readonly DescriptorRequest[] = []
  let hitsAddend = 0
  reader.beginObject()
  for (;;) {
    const name = reader.nextField(requestFields)
    if (name === undefined) break
    switch (name) {
      case 'domain':
        domain = readString(reader)
        break
      case 'descriptors':
        descriptors = readDescriptors(reader)
        break
      case 'hitsAddend':
        hitsAddend = readUint32(reader)
        break
    }
  }
  return { domain, descriptors, hitsAddend }
}

function readDescriptors(reader: JsonReader): DescriptorRequest[] {
  const descriptors: DescriptorRequest[] = []
  if (reader.skipNull()) return descriptors
  let partsLeft = maxParts
  reader.beginList()
  while (reader.nextItem()) {
    if (partsLeft < 1) throw tooManyParts()
    const descriptor = readDescriptor(reader, partsLeft - 1)
    descriptors.push(descriptor)
    partsLeft -= 1 + descriptor.entries.length
  }
  return descriptors
}

function readDescriptor(reader: JsonReader, entriesAllowed: number): DescriptorRequest {
  let entries: readonly DescriptorEntry[] = []
  let limit: DescriptorRequest['limit']
  let hitsAddend: number | undefined
  let givesBack = false
  reader.beginObject()
  for (;;) {
    const name = reader.nextField(descriptorFields)
    if (name === undefined) break
    switch (name) {
      case 'entries':
        entries = readEntries(reader, entriesAllowed)
        break
      case 'limit':
        limit = reader.skipNull() ? undefined : readLimit(reader)
        break
      case 'hitsAddend':
        hitsAddend = reader.skipNull() ? undefined : readCount(reader)
        break
      case 'isNegativeHits':
        givesBack = !reader.skipNull() && reader.boolean()
        break
    }
  }
  return { entries, hitsAddend, givesBack, limit }
}

function readEntries(reader: JsonReader, allowed: number): DescriptorEntry[] {
  const entries: DescriptorEntry[] = []
  if (reader.skipNull()) return entries
  reader.beginList()
  while (reader.nextItem()) {
    if (entries.length === allowed) throw tooManyParts()
    entries.push(readEntry(reader))
  }
  return entries
}

function readEntry(reader: JsonReader): DescriptorEntry {
  let key = ''
  let value = ''
  reader.beginObject()
  for (;;) {
    const name = reader.nextField(entryFields)
    if (name === undefined) break
    switch (name) {
      case 'key':
        key = readString(reader)
        break
      case 'value':
        value = readString(reader)
        break
    }
  }
  return { key, value }
}

function readLimit(reader: JsonReader): NonNullable<DescriptorRequest['limit']> {
  let requestsPerUnit = 0
  let unit: Unit | undefined
  reader.beginObject()
  for (;;) {
    const name = reader.nextField(limitFields)
    if (name === undefined) break
    switch (name) {
      case 'requestsPerUnit':
        requestsPerUnit = readUint32(reader)
        break
      case 'unit':
        unit = readUnit(reader)
        break
    }
  }
  return { requestsPerUnit, unit }
}

function readString(reader: JsonReader): string {
  return reader.skipNull() ? '' : reader.string()
}

const uint32Text = 'a whole number from 0 to 4294967295'

/**
 * Reads an integer from 0 to 2^32-1; returns 0 for null. A string may have a number as JavaScript writes it,
 * without spaces.
 */
function readUint32(reader: JsonReader): number {
  if (reader.skipNull()) return 0
  const found = reader.numberOrString(uint32Text)
  const isNumber = typeof found === 'number' || (found !== '' && found.trim() === found)
  const value = isNumber ? Number(found) : Number.NaN
  if (Number.isInteger(value) && value >= 0 && value <= maxUint32) return value
  throw reader.wrong(describe(found), uint32Text)
}

const uint64Text = 'a whole number from 0 to 18446744073709551615'

/** Reads a UInt64Value. A value above `maxCount` becomes `maxCount`. */
function readCount(reader: JsonReader): number {
  const found = reader.numberOrString(uint64Text)
  const value = found === '' ? undefined : wholeNumber(found)
  if (value === undefined || value < 0n || value > maxUint64) {
    throw reader.wrong(describe(found), uint64Text)
  }
  return value > BigInt(maxCount) ? maxCount : Number(value)
}

function wholeNumber(found: number | string): bigint | undefined {
  try {
    return BigInt(found)
  } catch {
    return undefined
  }
}

const unitText = 'SECOND, MINUTE, HOUR, DAY, MONTH or YEAR'

/** Reads a unit by name or number. An unknown number is undefined, as in the binary message. */
function readUnit(reader: JsonReader): Unit | undefined {
  if (reader.skipNull()) return undefined
  const found = reader.numberOrString(unitText)
  const value = typeof found === 'string' ? overrideUnitNumbers.get(found) : found
  if (value === undefined || !Number.isInteger(value) || value > maxInt32 || value < -maxInt32 - 1) {
    throw reader.wrong(describe(found), unitText)
  }
  return overrideUnits[value]
}

function describe(found: number | string): string {
  return typeof found === 'number' ? `${found}` : `the string ${printableText(found)}`
}

function tooManyParts(): RequestError {
  return new RequestError(`descriptors: at most ${maxParts} and their entries are allowed`, true)
}
