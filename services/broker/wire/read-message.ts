import { assertIdsAreShort } from './animation-ids.ts'
import type { EmptyMessage, Message } from './message.ts'
import { delimited, ProtobufReader } from './protobuf-reader.ts'
import { type DataBuilder, emptyData, readData } from './read-data.ts'
import { emptyHeader, type HeaderBuilder, readHeader } from './read-header.ts'
import { emptyStatus, readStatus, type StatusBuilder } from './status.ts'

type Building = HeaderBuilder | DataBuilder | StatusBuilder | EmptyMessage

const none: EmptyMessage = { part: 'none' }

/**
 * Reads an encoded AnimationDataStream in place. As in protobuf, the last of several parts takes precedence,
 * and a repeated part is merged. Unknown fields are skipped, as are known ones with another wire type. Other
 * known fields are checked except values of the header's metadata: an accepted message does not fail in a
 * consumer's decoder.
 *
 * @throws MalformedMessage for bytes that are not such a message, or that have groups
 * @throws IdTooLong if an id of the header is longer than `maxIdCharacters`
 */
export function readMessage(bytes: Uint8Array): Message {
  const message = readParts(bytes)
  if (message.part === 'header') assertIdsAreShort(message.ids, message.sourceServiceId)
  return message
}

function readParts(bytes: Uint8Array): Building {
  const reader = new ProtobufReader(bytes)
  let message: Building = none
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | delimited:
        if (message.part !== 'header') message = emptyHeader()
        readHeader(reader, message)
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
