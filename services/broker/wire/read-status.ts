import type { StatusMessage } from './message.ts'
import type { Mutable } from './read-header.ts'
import { type Status, statusCodes } from './status.ts'
import { delimited, varint, type WireReader } from './wire-reader.ts'

export interface StatusBuilder extends StatusMessage {
  readonly status: Mutable<Status>
}

export function emptyStatus(): StatusBuilder {
  return { part: 'status', status: { code: 'SUCCESS', message: '' } }
}

/** Reads the Status that follows into `message`. An unknown code counts as ERROR. */
export function readStatus(reader: WireReader, { status }: StatusBuilder): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | varint:
        status.code = statusCodes[reader.uint32()] ?? 'ERROR'
        break
      case (2 << 3) | delimited:
        status.message = reader.string()
        break
      default:
        reader.skip(tag)
    }
  }
  reader.leave(outer)
}
