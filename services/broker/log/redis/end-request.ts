import type { RequestEnd } from '../stream-log.ts'
import { encodeFiled, type FiledRequest, idsField } from './filed-request.ts'
import { endId } from './keys.ts'
import { endScript } from './scripts.ts'
import { endGraceMs, type RedisLogSetup } from './setup.ts'

/** How the try to end a request came out; `by` is the end that holds, ours or that of somebody before us. */
export type EndAnswer =
  | { readonly what: 'gone' }
  /** Another broker is the owner of the request. */
  | { readonly what: 'moved' }
  | { readonly what: 'ended' | 'other'; readonly by: RequestEnd }

/**
 * Ends a request for all brokers. May be sent again: of several ends the first one holds.
 *
 * Rejects when Redis does not answer.
 *
 * @param from the broker for which it ends: the one that `filed` names, or any
 */
export async function endRequest(
  setup: RedisLogSetup,
  filed: FiledRequest,
  end: RequestEnd,
  from: 'owner' | 'any' = 'owner',
): Promise<EndAnswer> {
  const { keys, commands, clock } = setup
  const { key, epoch } = filed
  const text = JSON.stringify(end)
  const reply = await commands.call(
    'EVAL',
    endScript,
    6,
    ...[keys.entries(key), keys.header(key), keys.requests, keys.running, keys.news, keys.producer(key)],
    ...[idsField(filed.ids), key, endId(epoch), text],
    `${epoch} ${encodeFiled({ ...filed, ended: { end, atMs: clock.nowMs() } })}`,
    Math.round(filed.limits.keepMs) + endGraceMs,
    from === 'any' ? '' : filed.owner,
  )
  const answer = String(reply)
  if (answer === 'gone' || answer === 'moved') return { what: answer }
  if (answer === 'ok' || answer === text) return { what: 'ended', by: end }
  return { what: 'other', by: JSON.parse(answer) }
}
