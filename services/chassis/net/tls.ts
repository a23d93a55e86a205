import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { type FSWatcher, watch } from 'node:fs'
import { isIP } from 'node:net'
import { dirname } from 'node:path'
import { createSecureContext } from 'node:tls'
import { readBoundedFile } from '../read-bounded-file.ts'

/** A PEM file, and the setting that names it. */
export interface TlsFile {
  /** `GRPC_SERVER_TLS_KEY`. Error messages begin with it and the path. */
  readonly setting: string
  /** Empty if the setting is unset. */
  readonly path: string
}

interface TlsFilesOptions {
  /** The certificate, followed by the intermediate certificates. Set together with `key` or not at all. */
  readonly cert?: TlsFile | undefined
  readonly key?: TlsFile | undefined
  /** The authorities that may have issued the peer's certificate: one certificate or several. */
  readonly ca?: TlsFile | undefined
  /** Called once for each change that makes the files invalid, with one line without secrets. */
  onReloadFailed(reason: string): void
  /** Polling finds changes for which the file system reports no event. */
  readonly pollMs?: number | undefined
  /**
   * If true, files that do not exist at the start are awaited, as for a Kubernetes Secret to be created
   * later.
   */
  readonly mayComeLater?: boolean | undefined
}

interface TlsFileContents {
  readonly identity?: { readonly cert: string; readonly key: string } | undefined
  readonly ca?: string | undefined
}

/** A certificate chain and a bundle of authorities have a few kilobytes each. */
const maxTlsFileBytes = 1024 * 1024
const defaultPollMs = 5_000
/**
 * The delay from the first event to the reading: a certificate and its key are written one after the other.
 */
const settleMs = 100

/**
 * Certificate files, which are read again whenever they change: written in place, replaced, or swapped by a
 * link as in the mount of a Kubernetes Secret. While the files are invalid or incomplete, the last valid ones
 * stay in use. Neither the file watchers nor the polling keep the process alive.
 */
export class TlsFiles {
  readonly #options: TlsFilesOptions
  readonly #listeners = new Set<() => void>()
  readonly #watchers: readonly FSWatcher[]
  readonly #poll: NodeJS.Timeout
  #current: TlsFileContents
  #missing: string
  #seen: string
  #settle: NodeJS.Timeout | undefined

  /** @throws Error with every problem of the current files, each as `SETTING: path: problem` */
  constructor(options: TlsFilesOptions) {
    const first = readTlsFiles(options)
    if ('problems' in first && !(options.mayComeLater && first.areAllMissing)) {
      throw new Error(first.problems.join('; '))
    }
    this.#options = options
    this.#current = 'problems' in first ? {} : first.value
    this.#missing = 'problems' in first ? first.problems.join('; ') : ''
    this.#seen = fingerprint(first)
    const paths = listFiles(options).map(({ path }) => path)
    this.#watchers = watchFolders(paths, () => this.#scheduleCheck())
    this.#poll = setInterval(() => this.#check(), options.pollMs ?? defaultPollMs).unref()
  }

  /**
   * Returns the newest valid credentials, in which certificate and key match; an empty object before the first
   * valid files (`mayComeLater`).
   */
  readonly credentials = (): TlsFileContents => this.#current

  /** Returns the problems of the files until there are valid ones; empty when there are credentials. */
  readonly missing = (): string => this.#missing

  /** Adds a listener for changes of the credentials, until the returned function is called. */
  readonly onChange = (listener: () => void): (() => void) => {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Stops watching; the credentials stay valid. */
  readonly close = (): void => {
    clearInterval(this.#poll)
    clearTimeout(this.#settle)
    for (const watcher of this.#watchers) watcher.close()
    this.#listeners.clear()
  }

  #scheduleCheck(): void {
    this.#settle ??= setTimeout(() => {
      this.#settle = undefined
      this.#check()
    }, settleMs).unref()
  }

  #check(): void {
    const read = readTlsFiles(this.#options)
    if (fingerprint(read) === this.#seen) return
    this.#seen = fingerprint(read)
    if ('problems' in read) {
      if (this.#missing !== '') this.#missing = read.problems.join('; ')
      // The files of a new Secret may appear one by one, so a missing file is expected.
      if (this.#missing !== '' && read.areAllMissing) return
      this.#options.onReloadFailed(read.problems.join('; '))
      return
    }
    // After invalid files, the same content as before may return; that is no change.
    if (fingerprint(read) === fingerprint({ value: this.#current })) return
    this.#current = read.value
    this.#missing = ''
    for (const listener of [...this.#listeners]) listener()
  }
}

/** A folder that cannot be watched is ignored: polling finds changes too, only later. */
function watchFolders(paths: readonly string[], onEvent: () => void): readonly FSWatcher[] {
  return [...new Set(paths.map(path => dirname(path)))].flatMap(folder => {
    try {
      return [watch(folder, { persistent: false }, onEvent).on('error', () => {})]
    } catch {
      return []
    }
  })
}

type TlsFilesRead =
  | { readonly value: TlsFileContents }
  /** Whether missing files are the only problem. */
  | { readonly problems: readonly string[]; readonly areAllMissing: boolean }

function fingerprint(read: TlsFilesRead): string {
  return JSON.stringify(read)
}

function listFiles({ cert, key, ca }: TlsFilesOptions): readonly TlsFile[] {
  return [cert, key, ca].flatMap(file => (file === undefined || file.path === '' ? [] : [file]))
}

function readTlsFiles(options: TlsFilesOptions): TlsFilesRead {
  const problems: string[] = []
  let missingFiles = 0
  const attempt = <T>(file: TlsFile | undefined, read: (path: string) => T): T | undefined => {
    if (file === undefined || file.path === '') return undefined
    try {
      return read(file.path)
    } catch (error) {
      problems.push(describeProblem(file, (error as Error).message))
      if (isMissingFile(error)) missingFiles += 1
      return undefined
    }
  }
  const read = (file: TlsFile | undefined) =>
    attempt(file, path => readBoundedFile(path, maxTlsFileBytes).toString('utf8'))
  const [cert, key, ca] = [read(options.cert), read(options.key), read(options.ca)]
  if (problems.length > 0) return { problems, areAllMissing: problems.length === missingFiles }
  const identity = cert !== undefined && key !== undefined ? { cert, key } : undefined
  if (identity === undefined && (cert ?? key) !== undefined) {
    problems.push(describeProblem(cert === undefined ? options.cert : options.key, 'is needed, too'))
  }
  const [certificate] = attempt(options.cert, () => parseCertificates(cert ?? '')) ?? []
  const privateKey = attempt(options.key, () => parseKey(key ?? ''))
  if (certificate && privateKey && !certificate.checkPrivateKey(privateKey)) {
    problems.push(
      describeProblem(options.key, `is not the key of the first certificate in ${options.cert?.path}`),
    )
  }
  if (ca !== undefined) attempt(options.ca, () => parseCertificates(ca))
  const value = { ...(identity && { identity }), ...(ca !== undefined && { ca }) }
  // OpenSSL has further rules, such as a minimum key length.
  if (problems.length === 0) attempt(options.cert, () => createSecureContext({ ...identity, ca }))
  return problems.length > 0 ? { problems, areAllMissing: false } : { value }
}

/**
 * Returns whether the file does not exist: the cause of an error of `readBoundedFile` is the error of the
 * system.
 */
function isMissingFile(error: unknown): boolean {
  return ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT'
}

function describeProblem(file: TlsFile | undefined, what: string): string {
  const prefix = file === undefined || file.path === '' ? '' : `${file.path}: `
  return `${file?.setting ?? 'the other file'}: ${prefix}${what}`
}

const certificateBlock = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/**
 * Parses the certificates of a PEM text in order; other text is ignored.
 *
 * @throws Error if the text has no certificate, or a damaged one
 */
export function parseCertificates(pem: string): readonly X509Certificate[] {
  const count = pem.split('-----BEGIN CERTIFICATE-----').length - 1
  const blocks = pem.match(certificateBlock) ?? []
  if (count === 0) throw new Error('contains no certificate in PEM')
  return Array.from({ length: count }, (_, index) => {
    try {
      return new X509Certificate(blocks[index] ?? '')
    } catch {
      throw new Error(`certificate ${index + 1} of ${count} is damaged`)
    }
  })
}

/**
 * Parses a private key. Its own errors replace those of the library, which may quote the content.
 *
 * @throws Error if the text is not a private key in PEM, or the key is encrypted
 */
export function parseKey(pem: string): KeyObject {
  try {
    return createPrivateKey(pem)
  } catch {
    const isEncrypted = /-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(pem)
    throw new Error(isEncrypted ? 'the key is encrypted, and must not be' : 'contains no private key in PEM')
  }
}

/**
 * Returns an error with the names of the certificate, unless one of them is the expected name. Only subject
 * alternative names count, never the common name (RFC 6125, 6.4.4; RFC 9525). The expected name is a DNS
 * name, which `*` as the first label of a name may match; an IP address; or a URI as in SPIFFE.
 */
export function checkSubjectAltName(certificate: X509Certificate, expected: string): Error | undefined {
  if (hasSubjectAltName(certificate, expected)) return undefined
  const names = certificate.subjectAltName ?? 'no name'
  return new Error(`the certificate is not for ${expected}, but for ${names.slice(0, maxNamesCharacters)}`)
}

const maxNamesCharacters = 500

function hasSubjectAltName(certificate: X509Certificate, expected: string): boolean {
  if (expected === '') return false
  if (expected.includes('://')) return parseUris(certificate.subjectAltName ?? '').includes(expected)
  if (isIP(expected) !== 0) return certificate.checkIP(expected) !== undefined
  return certificate.checkHost(expected, { subject: 'never', partialWildcards: false }) !== undefined
}

/**
 * Node returns all names as one text, `DNS:a.test, URI:spiffe://a/b`, in which an ambiguous value is a JSON
 * string. Such a value is skipped: no valid URI needs it.
 */
function parseUris(subjectAltName: string): readonly string[] {
  const names = subjectAltName.matchAll(/([\w ]+):(?:"(?:[^"\\]|\\.)*"|([^",]*))(?:, |$)/gy)
  return [...names].flatMap(([, kind, value]) => (kind === 'URI' && value !== undefined ? [value] : []))
}
