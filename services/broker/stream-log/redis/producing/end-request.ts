import type { RequestEnd } from '../../stream-log.ts'
import {
  type DirectoryEntry,
  decodeEnd,
  encodeEnd,
  encodeEntry,
  endedEntry,
  idsField,
  type StoredEnd,
} from '../directory-entry.ts'
import { endId } from '../keys.ts'
import { endScript } from '../scripts.ts'
import { endGraceMs, type RedisLogSetup } from '../setup.ts'

/**
 * The result of an attempt to end a request: the effective end, from this or an earlier attempt; `gone` if
 * Redis has lost the request; `moved` if another broker is its owner.
 */
export type EndAnswer = StoredEnd | 'gone' | 'moved'

export type EndingBroker = 'owner' | 'any' | { readonly uses: string }

/**
 * Ends a request for all brokers. May be repeated: the first of several ends is effective. Rejects if Redis
 * does not answer.
 *
 * @param who the broker for which it ends: the owner in `entry`, or any; with `uses`, the owner while the
 *   producer has not continued
 */
export async function endRequest(
  setup: RedisLogSetup,
  entry: DirectoryEntry,
  end: RequestEnd,
  who: EndingBroker = 'owner',
): Promise<EndAnswer> {
  const { keys, commands, clock, podId: by } = setup
  const { key, epoch } = entry
  const text = encodeEnd({ end, by })
  const reply = await commands.call(
    'EVAL',
    endScript,
    6,
    ...[keys.entries(key), keys.header(key), keys.requests, keys.running, keys.changes, keys.producer(key)],
    ...[idsField(entry.ids), key, endId(epoch), text],
    `${epoch} ${encodeEntry(endedEntry(entry, { end, by }, clock.nowMs()))}`,
    Math.round(entry.limits.keepMs) + endGraceMs,
    who === 'any' ? '' : entry.owner,
    typeof who === 'object' ? who.uses : '',
  )
  const answer = String(reply)
  if (answer === 'gone' || answer === 'moved') return answer
  return decodeEnd(answer === 'ok' ? text : answer)
}
