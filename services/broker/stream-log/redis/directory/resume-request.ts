import { hasEnded, runGone } from '../../refusals.ts'
import { type ResumeTokens, useToken } from '../../resume-tokens.ts'
import { describeEnd, LogRefusal, type ResumedRequest, type Resumption } from '../../stream-log.ts'
import { type DirectoryEntry, decodeEntry, encodeEntry } from '../directory-entry.ts'
import { resumeScript } from '../scripts.ts'
import type { RedisLogSetup } from '../setup.ts'
import { unavailable } from '../unavailable.ts'
import type { Directory } from './directory.ts'

/**
 * The number of changes of a request that are tolerated between two commands, because its token was used or
 * its producer moved.
 */
const maxTries = 5

/**
 * Continues a request at this broker; see `StreamLog.resume`. If its producer was at another broker, this one
 * becomes the owner: Redis rejects later entries of that broker, and the request has all entries that Redis
 * accepted before.
 */
export async function resumeRequest(
  setup: RedisLogSetup,
  directory: Directory,
  resumption: Resumption,
): Promise<ResumedRequest> {
  await setup.commands.whenReady(setup.timings.stallMs).catch(unavailable)
  return await directory.beginning(resumption.run, async () => {
    for (let tried = 0; tried < maxTries; tried += 1) {
      const resumed = await tryOnce(setup, directory, resumption)
      if (resumed !== undefined) return resumed
    }
    throw new LogRefusal('unavailable', 'the request is continued by others at the same time')
  })
}

interface Stored {
  readonly entry: DirectoryEntry
  readonly header: Uint8Array
  readonly owner: string
  readonly tokens: ResumeTokens | undefined
}

async function read({ keys, commands }: RedisLogSetup, run: string): Promise<Stored> {
  const [value, header, fields] = await Promise.all([
    commands.call('HGET', keys.requests, run),
    commands.call('GET', keys.header(run)),
    commands.call('HMGET', keys.producer(run), 'owner', 'token', 'previous', 'uses'),
  ]).catch(unavailable)
  const entry = value instanceof Uint8Array ? decodeEntry(run, String(value)) : undefined
  if (entry === undefined || !(header instanceof Uint8Array)) throw runGone(run)
  const [owner, tokenHash, previousHash, uses] = (fields as (Uint8Array | null)[]).map(field =>
    field === null ? '' : String(field),
  )
  const previous = previousHash ? { previousHash } : {}
  const tokens = tokenHash ? { tokenHash, ...previous, uses: Number(uses) } : undefined
  return { entry, header: new Uint8Array(header), owner: owner ?? '', tokens }
}

/** Undefined if the request has changed since it was read. */
async function tryOnce(
  setup: RedisLogSetup,
  directory: Directory,
  resumption: Resumption,
): Promise<ResumedRequest | undefined> {
  const { podId } = setup
  const { entry, header, owner, tokens } = await read(setup, resumption.run)
  const { uses } = useToken(tokens, resumption)
  if (entry.ended !== undefined) throw hasEnded(describeEnd(entry.ended.end))
  // The directory of this broker may be older than the data that was read.
  directory.learn(entry)
  const local = directory.get(entry.key)?.running
  const next = local === undefined ? { ...entry, podId, owner: Number(owner) + 1 } : entry
  const progress = await use(setup, { resumption, owner, next, isNew: local === undefined })
  if (progress === undefined) return undefined
  if (local !== undefined) {
    const resumed = local.resume(uses)
    if (resumed === undefined) throw hasEnded('the time to continue is over')
    return { ...resumed, uses }
  }
  const request = directory.get(entry.key)
  if (request === undefined) throw runGone(resumption.run)
  return { writer: await request.takeOver(next, { header, progress, uses }), header, uses, progress }
}

interface Use {
  readonly resumption: Resumption
  readonly owner: string
  readonly next: DirectoryEntry
  readonly isNew: boolean
}

/** Uses the token. Returns the progress in Redis, or undefined if the request has changed. */
async function use(
  setup: RedisLogSetup,
  { resumption, owner, next, isNew }: Use,
): Promise<object | undefined> {
  const { keys, commands, timings } = setup
  const { run, tokenHash, nextTokenHash } = resumption
  const names = [keys.producer(run), keys.requests, keys.changes, keys.entries(run), keys.header(run)]
  const entry = isNew ? `${next.epoch} ${encodeEntry(next)}` : ''
  const values = [run, owner, tokenHash, nextTokenHash, next.owner, entry, timings.orphanMs]
  const reply = await commands
    .call('EVAL', resumeScript, names.length, ...names, ...values)
    .catch(unavailable)
  return reply instanceof Uint8Array ? JSON.parse(String(reply)) : undefined
}
