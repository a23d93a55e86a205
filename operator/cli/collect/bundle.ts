import { createWriteStream } from 'node:fs'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { buildTree, type TreeEntry, textFile } from '@tollway/chassis/file-tree.ts'
import { packTar } from '@tollway/chassis/tar.ts'
import { findCondition, type StatusReport } from '../../status/status-report.ts'
import { redactObject, redactText } from './redact.ts'

/** The limits of the content before compression. */
interface BundleLimits {
  readonly maxFileBytes: number
  readonly maxBytes: number
}

const bundleLimits: BundleLimits = { maxFileBytes: 5 * 1024 * 1024, maxBytes: 50 * 1024 * 1024 }

export interface BundleManifest {
  readonly createdAt: string
  readonly limits: BundleLimits
  readonly files: readonly { readonly path: string; readonly bytes: number; readonly cutBytes?: number }[]
  readonly leftOut: readonly { readonly path: string; readonly reason: string }[]
  readonly removed: readonly string[]
}

const alwaysRemoved = [
  'Secrets, and the values of ConfigMaps other than the configuration of the operator',
  'values of environment variables that are not numbers, durations, sizes or switches',
  'annotations of other programs, such as last-applied-configuration',
  'user info of URLs, tokens, private keys, card numbers, and values of names such as password, secret or token',
]

/** The files of a support bundle, without secrets. The manifest names the parts that could not be read. */
export class Bundle {
  readonly #files = new Map<string, TreeEntry>()
  readonly #listed: { path: string; bytes: number; cutBytes?: number }[] = []
  readonly #leftOut: { path: string; reason: string }[] = []
  readonly #limits: BundleLimits
  readonly #known: readonly string[]
  #bytes = 0

  /** @param known the texts of known secrets, which are removed from all files */
  constructor(known: readonly string[] = [], limits = bundleLimits) {
    this.#known = known
      .filter(secret => secret.length >= minKnownLength)
      .toSorted((a, b) => b.length - a.length)
    this.#limits = limits
  }

  leaveOut(path: string, reason: string): void {
    this.#leftOut.push({ path, reason: redactText(reason, this.#known) })
  }

  /** Resolves with the object; undefined if it cannot be read. */
  async addObject<T>(path: string, read: () => Promise<T>): Promise<T | undefined> {
    const found = await this.#read(path, read)
    if (found !== undefined)
      this.#add(path, `${JSON.stringify(redactObject(found, this.#known), undefined, 2)}\n`)
    return found
  }

  /** If the text is too long, only its last lines are added. */
  async addText(path: string, read: () => Promise<string>): Promise<void> {
    const found = await this.#read(path, read)
    if (found !== undefined) this.#add(path, redactText(found, this.#known))
  }

  async #read<T>(path: string, read: () => Promise<T>): Promise<T | undefined> {
    try {
      return await read()
    } catch (error) {
      this.leaveOut(path, (error as Error).message)
      return undefined
    }
  }

  #add(path: string, text: string): void {
    const whole = Buffer.from(text)
    const room = Math.min(this.#limits.maxFileBytes, this.#limits.maxBytes - this.#bytes)
    if (room < whole.length && room < minCutBytes) {
      this.leaveOut(path, `the bundle has reached its limit of ${this.#limits.maxBytes} bytes`)
      return
    }
    const kept = whole.length <= room ? whole : dropFirstLine(whole.subarray(whole.length - room))
    this.#bytes += kept.length
    this.#files.set(path, textFile(kept.toString('utf8')))
    const cutBytes = whole.length - kept.length
    this.#listed.push({ path, bytes: kept.length, ...(cutBytes > 0 && { cutBytes }) })
  }

  /** Writes the bundle as a compressed tar that only the user can read. Rejects if the file exists. */
  async write(file: string, createdAt: string): Promise<BundleManifest> {
    const manifest = {
      createdAt,
      limits: this.#limits,
      files: this.#listed,
      leftOut: this.#leftOut,
      removed: alwaysRemoved,
    }
    const entries = [
      ...this.#files,
      ['manifest.json', textFile(`${JSON.stringify(manifest, undefined, 2)}\n`)],
    ] as const
    const tree = buildTree(entries.map(([path, entry]) => [`tollway-bundle/${path}`, entry] as const))
    await pipeline(
      Readable.from(packTar(tree)),
      createGzip(),
      createWriteStream(file, { mode: 0o600, flags: 'wx' }),
    )
    return manifest
  }
}

/** The minimum length of a known secret to remove: a shorter one would also match ordinary words. */
const minKnownLength = 4
/** A file that would have to be cut to fewer bytes than this is left out. */
const minCutBytes = 1024

function dropFirstLine(bytes: Buffer): Buffer {
  const end = bytes.indexOf('\n')
  return end === -1 ? bytes : bytes.subarray(end + 1)
}

export function countProblems({ resources, replicas, problems }: StatusReport) {
  return {
    resources: resources.reduce((total, { resources = 1 }) => total + resources, 0),
    notReady: countReasons(resources, 'Ready', status => status !== 'True'),
    degraded: countReasons(resources, 'Degraded', status => status === 'True'),
    processes: replicas.length,
    processesNotReady: replicas.filter(({ ready }) => !ready).length,
    restarts: replicas.reduce((total, { restarts }) => total + restarts, 0),
    problems: problems.length,
  }
}

function countReasons(
  resources: StatusReport['resources'],
  type: string,
  isProblem: (status: string) => boolean,
): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const resource of resources) {
    const { status, reason } = findCondition(resource, type)
    const key = reason || 'Unknown'
    if (isProblem(status)) counts[key] = (counts[key] ?? 0) + (resource.resources ?? 1)
  }
  return counts
}
