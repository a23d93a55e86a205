import type { RequestEnd } from '../../stream-log.ts'
import { type DirectoryEntry, type EndedAt, encodeEntry, idsField } from '../directory/directory-entry.ts'
import { endId } from '../keys.ts'
import { endScript } from '../scripts.ts'
import { endGraceMs, type RedisLogSetup } from '../setup.ts'

/** The result of an attempt to end a request, with the effective end, from this or an earlier attempt. */
export type EndAnswer =
  | { readonly what: 'gone' }
  /** Another broker is the owner of the request. */
  | { readonly what: 'moved' }
  | ({ readonly what: 'ended' } & StoredEnd)

/**
 * An end in Redis, and the broker that wrote it. Older versions of the broker do not write their id: it is
 * empty.
 */
export type StoredEnd = Required<Pick<EndedAt, 'end' | 'by'>>

export function decodeEnd(text: string): StoredEnd {
  const { by = '', ...end }: RequestEnd & { by?: string } = JSON.parse(text)
  return { end, by }
}

/**
 * Ends a request for all brokers. May be repeated: the first of several ends is effective. Rejects if Redis
 * does not answer.
 *
 * @param from the broker for which it ends: the one in `filed`, or any
 */
export async function endRequest(
  setup: RedisLogSetup,
  filed: DirectoryEntry,
  end: RequestEnd,
  from: 'owner' | 'any' = 'owner',
): Promise<EndAnswer> {
  const { keys, commands, clock, podId: by } = setup
  const { key, epoch } = filed
  const text = JSON.stringify({ ...end, by })
  const reply = await commands.call(
    'EVAL',
    endScript,
    6,
    ...[keys.entries(key), keys.header(key), keys.requests, keys.running, keys.news, keys.producer(key)],
    ...[idsField(filed.ids), key, endId(epoch), text],
    `${epoch} ${encodeEntry({ ...filed, ended: { end, by, atMs: clock.nowMs() } })}`,
    Math.round(filed.limits.keepMs) + endGraceMs,
    from === 'any' ? '' : filed.owner,
  )
  const answer = String(reply)
  if (answer === 'gone' || answer === 'moved') return { what: answer }
  return { what: 'ended', ...decodeEnd(answer === 'ok' ? text : answer) }
}
