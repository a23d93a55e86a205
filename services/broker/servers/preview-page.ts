import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { LoggedRequest, RingCursor, StreamLog } from '../stream-log/stream-log.ts'
import { PageError } from './admin-errors.ts'
import { jsonType, type PageHandler, send } from './page-server.ts'

/** A preview shows the last messages, up to these limits. */
const maxBytes = 1024 * 1024
const maxMessages = 2_000
/** The time to wait for messages of another broker, which come through Redis. */
const waitMs = 500
const quietMs = 50
/** The limit of concurrent previews, each of which decodes up to `maxBytes`. */
const maxPreviews = 4

/**
 * Resolves with JSON of the last messages, decimated; undefined if no kept request has the key. Rejects if
 * the preview cannot be made now.
 */
export type MakePreview = (key: string) => Promise<string | undefined>

/**
 * Creates previews through a cursor that holds no messages, so that producer and consumers are not affected.
 * Concurrent callers share the preview of a request.
 */
export function createPreviews(streams: Pick<StreamLog, 'list'>): MakePreview {
  const running = new Map<string, Promise<string>>()

  async function make(request: LoggedRequest): Promise<string> {
    const { header, messages } = await readLastMessages(request)
    // The decoder takes memory that other pages do not need.
    const { createPreview } = await import('./request-preview.ts')
    const { key, ids, ended } = request
    const preview = header === undefined ? null : createPreview(header, messages)
    return JSON.stringify({ key, ...ids, ended, preview })
  }

  return async key => {
    const request = streams.list().find(one => one.key === key)
    if (request === undefined) return undefined
    const known = running.get(key)
    if (known !== undefined) return known
    if (running.size >= maxPreviews) throw new ExpectedError(`${maxPreviews} previews are being made`)
    const making = make(request).finally(() => running.delete(key))
    running.set(key, making)
    return making
  }
}

/** Answers `/streams/preview?key=KEY`. */
export function previewPage(makePreview: MakePreview): PageHandler {
  return async (_, response, query) => {
    const key = query.get('key') ?? ''
    if (key === '') throw new PageError('invalid', 'key: is missing; expected that of a request in /streams')
    const made = await makePreview(key).catch((error: Error) => {
      throw new PageError('preview-failed', error.message)
    })
    if (made === undefined) throw new PageError('not-found', 'key: no request that is kept here has it')
    send(response, 200, `${made}\n`, jsonType)
  }
}

/** Reads kept messages without holding them. Resolves with copies of the last ones. */
async function readLastMessages(request: LoggedRequest) {
  let onReadable = () => {}
  const cursor = await request.read({ onReadable: () => onReadable(), waiting: true })
  try {
    const kept = new LastMessages()
    const { promise, resolve } = Promise.withResolvers<void>()
    const deadline = setTimeout(resolve, waitMs)
    let quiet = setTimeout(resolve, quietMs)
    onReadable = () => {
      clearTimeout(quiet)
      kept.takeAll(cursor)
      if (cursor.end === undefined) quiet = setTimeout(resolve, quietMs)
      else resolve()
    }
    onReadable()
    await promise
    clearTimeout(deadline)
    clearTimeout(quiet)
    return kept
  } finally {
    cursor.close()
  }
}

class LastMessages {
  header: Uint8Array | undefined
  readonly messages: Uint8Array[] = []
  #bytes = 0

  takeAll(cursor: RingCursor): void {
    for (let entry = cursor.next(); entry !== undefined; entry = cursor.next()) {
      if (entry.position === 0) this.header = entry.bytes.slice()
      else this.#add(entry.bytes.slice())
    }
  }

  #add(bytes: Uint8Array): void {
    this.messages.push(bytes)
    this.#bytes += bytes.length
    while (this.messages.length > maxMessages || this.#bytes > maxBytes) {
      this.#bytes -= this.messages.shift()?.length ?? 0
    }
  }
}
