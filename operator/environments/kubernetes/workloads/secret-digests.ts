import { createHmac } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { SecretFiles, Workload } from '../../../model.ts'
import type { SecretContent } from '../api/secrets.ts'

/**
 * Computes a digest of the Secrets that the replicas of a workload read only at start. The digest is part of
 * the pod template (`Workload.secretsDigest`), so a changed Secret replaces the replicas.
 */
export type SecretDigests = ReturnType<typeof createSecretDigests>

interface SecretDigestsOptions {
  readonly workloads: readonly Workload[]
  /** Reads a Secret of the operator's namespace; undefined if it does not exist. */
  readonly get: (name: string, signal: AbortSignal) => Promise<SecretContent | undefined>
  /** Returns whether this operator leads. An operator that does not lead reads nothing. */
  readonly mayWrite: () => boolean
  /** Called when the Secrets cannot be read, once for each new reason. */
  readonly onProblem: (message: string) => void
  readonly random: () => number
  readonly intervalMs?: number
}

/** The time between two reads, in case a change was not reported by `checkNow`. */
const defaultIntervalMs = 600_000
/** The longest wait after a failed read. */
const retryMs = 10_000
const readTimeoutMs = 5_000
const digestLength = 16

export function createSecretDigests(options: SecretDigestsOptions) {
  const { workloads, get, mayWrite, onProblem, random, intervalMs = defaultIntervalMs } = options
  const listeners: (() => void)[] = []
  const pause = new WakeablePause()
  const stopped = new AbortController()
  let known: ReadonlyMap<string, string> = new Map()
  let problem = ''
  let running: Promise<void> = Promise.resolve()

  async function readAll(): Promise<ReadonlyMap<string, string>> {
    const signal = AbortSignal.any([stopped.signal, AbortSignal.timeout(readTimeoutMs)])
    const digests = await Promise.all(
      workloads.map(async workload => [
        workload.name,
        await digestWorkload(workload, name => get(name, signal)),
      ]),
    )
    return new Map(digests.filter((entry): entry is [string, string] => entry[1] !== undefined))
  }

  /** Reads the Secrets and reports changed digests. Resolves with the time until the next read. */
  async function compare(): Promise<number> {
    if (!mayWrite()) return intervalMs
    try {
      const found = await readAll()
      problem = ''
      if (!isDeepStrictEqual(found, known)) for (const listener of listeners) listener()
      return intervalMs
    } catch (error) {
      const { message } = error as Error
      if (message !== problem && !stopped.signal.aborted) onProblem(message)
      problem = message
      return Math.min(retryMs, intervalMs)
    }
  }

  async function run(): Promise<void> {
    let waitMs = intervalMs
    while (!stopped.signal.aborted) {
      // The random part keeps the operators of many installations from reading at the same time.
      await pause.wait(waitMs * (1 + random() / 2), stopped.signal)
      if (!stopped.signal.aborted) waitMs = await compare()
    }
  }

  return {
    /**
     * Reads the Secrets. Resolves with the digest of each workload by name; workloads with a missing Secret
     * are left out. Rejects if a Secret cannot be read.
     */
    async read(): Promise<ReadonlyMap<string, string>> {
      known = await readAll()
      return known
    },
    /** Calls the listener when the digests are no longer those that `read` last returned. */
    onChange: (listener: () => void) => void listeners.push(listener),
    /** Reads the Secrets now. Called when one may have changed. */
    checkNow: () => pause.wake(),
    /** Starts to read the Secrets at long intervals. An operator that does not lead skips the reads. */
    start(): void {
      running = run()
    },
    async stop(): Promise<void> {
      stopped.abort()
      await running
    },
  }
}

export function digestedSecrets(workloads: readonly Workload[]): readonly string[] {
  return workloads.flatMap(workload => digestedFiles(workload).map(({ secretName }) => secretName))
}

const digestedFiles = ({ secretFiles = [] }: Workload) =>
  secretFiles.filter(({ isReread }) => isReread !== true)

/**
 * Returns undefined if a Secret does not exist, or if the replicas read every Secret again when it changes.
 */
async function digestWorkload(
  workload: Workload,
  get: (name: string) => Promise<SecretContent | undefined>,
): Promise<string | undefined> {
  const files = digestedFiles(workload)
  if (files.length === 0) return undefined
  const contents = await Promise.all(files.map(async one => digestFiles(one, await get(one.secretName))))
  return contents.includes(undefined) ? undefined : contents.join('-')
}

/**
 * Returns an HMAC whose key is the uid of the Secret. Only accounts that may read the Secret know the uid, so
 * a reader of the Deployment cannot test guesses of a password against the digest.
 */
function digestFiles({ keys }: SecretFiles, secret: SecretContent | undefined): string | undefined {
  if (secret === undefined) return undefined
  const { data, uid } = secret
  const entries = Object.entries(data)
    .filter(([key]) => keys === undefined || keys.includes(key))
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return createHmac('sha256', uid).update(JSON.stringify(entries)).digest('hex').slice(0, digestLength)
}
