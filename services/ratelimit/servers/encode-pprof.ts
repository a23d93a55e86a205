import { gzipSync } from 'node:zlib'
import { BinaryWriter } from '@bufbuild/protobuf/wire'

export interface StackFrame {
  readonly functionName: string
  /** The URL of the file with the function; empty for functions of the engine. */
  readonly url: string
  /** The line on which the function begins, counted from 0 as in V8. */
  readonly lineNumber: number
}

export interface ProfileSample {
  /** The innermost function is first. */
  readonly stack: readonly StackFrame[]
  /** One value for each of `Profile.sampleTypes`, in the same order. */
  readonly values: readonly number[]
}

export interface Profile {
  /** The types and the units of the values: `['cpu', 'nanoseconds']`. */
  readonly sampleTypes: readonly (readonly [type: string, unit: string])[]
  readonly samples: readonly ProfileSample[]
  readonly startedMs: number
  readonly durationMs: number
}

/** The field numbers of pprof's profile.proto that are written. */
const fields = {
  profile: {
    sampleType: 1,
    sample: 2,
    location: 4,
    function: 5,
    stringTable: 6,
    timeNanos: 9,
    durationNanos: 10,
  },
  valueType: { type: 1, unit: 2 },
  sample: { locationId: 1, value: 2 },
  location: { id: 1, line: 4 },
  line: { functionId: 1, line: 2 },
  function: { id: 1, name: 2, systemName: 3, filename: 4, startLine: 5 },
} as const

/** Encodes the profile for `go tool pprof`: a Profile message of profile.proto, compressed with gzip. */
export function encodePprof({ sampleTypes, samples, startedMs, durationMs }: Profile): Buffer {
  const writer = new BinaryWriter()
  const strings = createTable<string>(text => text)
  strings.indexOf('')
  const frames = createTable<StackFrame>(
    ({ functionName, url, lineNumber }) => `${functionName} ${url} ${lineNumber}`,
  )
  for (const [type, unit] of sampleTypes) {
    const { valueType } = fields
    message(writer, fields.profile.sampleType, part => {
      part.tag(valueType.type, varint).int64(strings.indexOf(type))
      part.tag(valueType.unit, varint).int64(strings.indexOf(unit))
    })
  }
  for (const { stack, values } of samples) {
    message(writer, fields.profile.sample, part => {
      for (const frame of stack) part.tag(fields.sample.locationId, varint).uint64(frames.indexOf(frame) + 1)
      for (const value of values) part.tag(fields.sample.value, varint).int64(Math.round(value))
    })
  }
  for (const [index, frame] of frames.list.entries()) writeFrame(writer, index + 1, frame, strings.indexOf)
  for (const text of strings.list) writer.tag(fields.profile.stringTable, delimited).string(text)
  writer.tag(fields.profile.timeNanos, varint).int64(BigInt(Math.round(startedMs)) * 1_000_000n)
  writer.tag(fields.profile.durationNanos, varint).int64(Math.round(durationMs * 1e6))
  return gzipSync(writer.finish())
}

/** Writes a function and its location: V8 reports only one location for each function. */
function writeFrame(
  writer: BinaryWriter,
  id: number,
  frame: StackFrame,
  indexOf: (text: string) => number,
): void {
  const { location, line, function: named } = fields
  const lineNumber = frame.lineNumber + 1
  message(writer, fields.profile.location, part => {
    part.tag(location.id, varint).uint64(id)
    message(part, location.line, linePart => {
      linePart.tag(line.functionId, varint).uint64(id)
      linePart.tag(line.line, varint).int64(lineNumber)
    })
  })
  message(writer, fields.profile.function, part => {
    const name = indexOf(frame.functionName || '(anonymous)')
    part.tag(named.id, varint).uint64(id)
    part.tag(named.name, varint).int64(name)
    part.tag(named.systemName, varint).int64(name)
    part.tag(named.filename, varint).int64(indexOf(frame.url))
    part.tag(named.startLine, varint).int64(lineNumber)
  })
}

const varint = 0
const delimited = 2

function message(writer: BinaryWriter, field: number, write: (part: BinaryWriter) => void): void {
  writer.tag(field, delimited).fork()
  write(writer)
  writer.join()
}

/** Assigns each value a number, from 0; equal values have the same number. */
function createTable<T>(keyOf: (value: T) => string) {
  const indices = new Map<string, number>()
  const list: T[] = []
  return {
    list,
    indexOf(value: T): number {
      const key = keyOf(value)
      const known = indices.get(key)
      if (known !== undefined) return known
      indices.set(key, list.length)
      return list.push(value) - 1
    },
  }
}
