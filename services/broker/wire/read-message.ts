import { assertIdsAreShort } from './id-limit.ts'
import type { EmptyMessage, Message } from './message.ts'
import { type DataBuilder, emptyData, readData } from './read-data.ts'
import { emptyHeader, type HeaderBuilder, type NameLists, readHeader } from './read-header.ts'
import { emptyStatus, readStatus, type StatusBuilder } from './read-status.ts'
import { delimited, WireReader } from './wire-reader.ts'

type Building = HeaderBuilder | DataBuilder | StatusBuilder | EmptyMessage

const none: EmptyMessage = { part: 'none' }

/**
 * What stands in an encoded AnimationDataStream, read in place. Of several parts the last one counts, and a part
 * that follows itself is merged, as protobuf says. Unknown fields are passed over, as are known ones with another
 * wire type. Everything that the schema knows is looked at down to the last number, except the values of the
 * header's metadata: a message that is accepted does not fail in a consumer's decoder.
 *
 * @throws MalformedMessage for bytes that are no such message, or that have groups
 * @throws IdTooLong when an id of its header has more than `maxIdCharacters`
 */
export function readMessage(bytes: Uint8Array): Message {
  const message = readParts(bytes)
  if (message.part === 'header') assertIdsAreShort(message.ids, message.sourceServiceId)
  return message
}

/** The names of a header, which `readMessage` only counts. */
export interface HeaderNames {
  readonly blendShapes: readonly string[]
  readonly joints: readonly string[]
}

/**
 * The names of an encoded AnimationDataStream that is a header; none of any other.
 *
 * @throws MalformedMessage for bytes that are no such message, or that have groups
 */
export function readHeaderNames(bytes: Uint8Array): HeaderNames {
  const names: NameLists = { blendShapes: [], joints: [] }
  const { part } = readParts(bytes, names)
  return part === 'header' ? names : { blendShapes: [], joints: [] }
}

function readParts(bytes: Uint8Array, names?: NameLists): Building {
  const reader = new WireReader(bytes)
  let message: Building = none
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | delimited:
        if (message.part !== 'header') {
          message = emptyHeader()
          forget(names)
        }
        readHeader(reader, message, names)
        break
      case (2 << 3) | delimited:
        if (message.part !== 'data') message = emptyData()
        readData(reader, message)
        break
      case (3 << 3) | delimited:
        if (message.part !== 'status') message = emptyStatus()
        readStatus(reader, message)
        break
      default:
        reader.skip(tag)
    }
  }
  return message
}

function forget(names: NameLists | undefined): void {
  if (names === undefined) return
  names.blendShapes.length = 0
  names.joints.length = 0
}
