import { spawn } from 'node:child_process'
import { generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, writeFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import { join } from 'node:path'
import { type Certificate, makeCertificate } from './certificate.ts'
import { endWithFile } from './end-with-file.ts'
import { freePorts } from './free-ports.ts'
import { type Program, startProgram } from './program.ts'
import { temporaryFolder } from './temporary-folder.ts'
import { startDeadlineMs, waitFor } from './wait-for.ts'

/** A kube-apiserver with its etcd, without controllers and nodes. */
export interface KubeApiServer {
  /**
   * Makes one call as an administrator. `body` is sent as JSON, and as an apply patch with PATCH; `accept` is
   * the media type of the answer.
   */
  call(method: string, path: string, body?: unknown, accept?: string): Promise<ApiAnswer>
  /** The same call with a bearer token of another account. */
  callAs(token: string): KubeApiServer['call']
  /** Returns a token of a service account that is valid until the time, in seconds since the epoch. */
  signToken(account: TokenAccount, expiresAt: number): string
  stop(): Promise<void>
  readonly url: string
  /** The token of an administrator. */
  readonly token: string
}

export interface TokenAccount {
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

export interface ApiAnswer {
  readonly status: number
  readonly body: unknown
  /** The warnings of the server. */
  readonly warnings: readonly string[]
}

const token = 'administrator-of-a-test'
/**
 * Returns the reason to skip tests that need an API server; false when one can be started. For the `skip`
 * option of a suite. REQUIRE_SERVERS=1 does not require it: no package of a distribution has its programs.
 *
 * @throws Error when KUBE_ASSETS names a folder without one of them
 */
export function missingKubeAssets(): string | false {
  const folder = process.env['KUBE_ASSETS'] ?? ''
  if (folder === '') {
    const reason = 'KUBE_ASSETS names no folder with etcd and kube-apiserver'
    process.stderr.write(`SKIPPED: ${reason}\n`)
    return reason
  }
  const missing = ['etcd', 'kube-apiserver'].filter(name => !existsSync(join(folder, name)))
  if (missing.length === 0) return false
  throw new Error(`there is no ${missing.join(' and no ')} in KUBE_ASSETS (${folder})`)
}

/**
 * Starts both on free ports of the loopback address, with their data in a temporary folder. Needs openssl.
 */
export async function startKubeApiServer(): Promise<KubeApiServer> {
  const assets = process.env['KUBE_ASSETS'] ?? ''
  const place = temporaryFolder('kube-api-server')
  const [etcdPort = 0, peerPort = 0, port = 0] = await freePorts(3)
  const etcdUrl = `http://127.0.0.1:${etcdPort}`
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const certificate = await makeCertificate(place, 'kube-apiserver', 'IP:127.0.0.1')
  // Garbage collection costs a fifth of the CPU time of a start. Both programs collect above this limit only.
  const options = { env: { ...process.env, GOGC: 'off', GOMEMLIMIT: '700MiB' } }
  const programs = [
    startProgram(
      join(assets, 'etcd'),
      etcdArguments(place, etcdUrl, `http://127.0.0.1:${peerPort}`),
      options,
    ),
    startProgram(
      join(assets, 'kube-apiserver'),
      apiServerArguments(place, etcdUrl, port, { ...certificate, privateKey }),
      options,
    ),
  ]
  const guard = guardAgainstOrphans(programs, place)
  const agent = new Agent({ keepAlive: true, maxSockets: 4 })
  const stop = async () => {
    agent.destroy()
    await Promise.all(programs.map(program => program.end('SIGKILL')))
    await guard.release()
  }
  try {
    const callAs = (bearer: string) => caller(certificate.cert, port, agent, bearer)
    const call = callAs(token)
    await waitFor(
      'the API server to be ready',
      async () => {
        if (programs.some(hasEnded)) return true
        return (await call('GET', '/readyz')).status === 200
      },
      startDeadlineMs,
    )
    if (programs.some(hasEnded)) throw new Error('etcd or kube-apiserver ended at once')
    const signToken = (account: TokenAccount, expiresAt: number) => makeToken(privateKey, account, expiresAt)
    return { call, callAs, signToken, stop, url: `https://127.0.0.1:${port}`, token }
  } catch (error) {
    const said = programs.map(program => program.output().slice(-4000)).join('\n')
    await stop()
    throw new Error(`${(error as Error).message}; output:\n${said}`)
  }
}

function hasEnded({ process }: Program): boolean {
  return process.exitCode !== null || process.signalCode !== null
}

function etcdArguments(place: string, url: string, peerUrl: string): string[] {
  return [
    `--data-dir=${join(place, 'etcd')}`,
    '--unsafe-no-fsync',
    '--log-level=error',
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    `--listen-peer-urls=${peerUrl}`,
    `--initial-advertise-peer-urls=${peerUrl}`,
    `--initial-cluster=default=${peerUrl}`,
  ]
}

/**
 * Unused features are disabled, and no key is of RSA, which takes long to generate: this saves 0.7 s of the
 * 3.2 s of CPU time that the server needs to start.
 */
function apiServerArguments(
  place: string,
  etcdUrl: string,
  port: number,
  { certFile, keyFile, privateKey }: Certificate & { readonly privateKey: KeyObject },
): string[] {
  const tokens = join(place, 'tokens.csv')
  writeFileSync(tokens, `${token},administrator,1,system:masters\n`, { mode: 0o600 })
  const key = join(place, 'service-accounts.key')
  writeFileSync(key, privateKey.export({ type: 'sec1', format: 'pem' }), { mode: 0o600 })
  return [
    `--etcd-servers=${etcdUrl}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${port}`,
    `--tls-cert-file=${certFile}`,
    `--tls-private-key-file=${keyFile}`,
    `--token-auth-file=${tokens}`,
    '--authorization-mode=RBAC',
    '--allow-privileged=true',
    '--service-cluster-ip-range=10.0.0.0/24',
    `--service-account-issuer=${issuer}`,
    `--service-account-key-file=${key}`,
    `--service-account-signing-key-file=${key}`,
    `--runtime-config=${unusedGroups.map(group => `${group}=false`).join()}`,
    `--disable-admission-plugins=${unusedPlugins.join()}`,
    '--enable-priority-and-fairness=false',
  ]
}

/** A JSON Web Token (RFC 7519) as the API server signs them for pods. */
function makeToken(key: KeyObject, { namespace, name, uid }: TokenAccount, expiresAt: number): string {
  const begin = expiresAt - 3600
  const claims = {
    ...{ iss: issuer, aud: [issuer], sub: `system:serviceaccount:${namespace}:${name}` },
    ...{ iat: begin, nbf: begin, exp: expiresAt },
    'kubernetes.io': { namespace, serviceaccount: { name, uid } },
  }
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  const signed = `${encode({ alg: 'ES256' })}.${encode(claims)}`
  const signature = sign('sha256', Buffer.from(signed), { key, dsaEncoding: 'ieee-p1363' })
  return `${signed}.${signature.toString('base64url')}`
}

const issuer = 'https://kubernetes.default.svc'

const unusedGroups = [
  'certificates.k8s.io/v1',
  'flowcontrol.apiserver.k8s.io/v1',
  'node.k8s.io/v1',
  'resource.k8s.io/v1',
  'storage.k8s.io/v1',
]

const unusedPlugins = [
  // No controller creates the accounts that this plugin requires.
  'ServiceAccount',
  // These require objects of the groups above.
  'CertificateApproval',
  'CertificateSigning',
  'CertificateSubjectRestriction',
  'ClusterTrustBundleAttest',
  'DefaultStorageClass',
  'PersistentVolumeClaimResize',
  'RuntimeClass',
  'StorageObjectInUseProtection',
]

/**
 * Ends the programs when this process ends without doing so itself: a shell that reads from a pipe notices
 * it, since the kernel closes the other end.
 */
function guardAgainstOrphans(
  programs: readonly Program[],
  place: string,
): { readonly release: () => Promise<void> } {
  const pids = programs.map(({ pid }) => `${pid}`)
  const script = 'read -r line || { kill -9 "$@"; sleep 1; rm -rf "$0"; }'
  const shell = spawn('sh', ['-c', script, place, ...pids], {
    stdio: ['pipe', 'ignore', 'ignore'],
    // Ctrl-C in the terminal must end the tests, and not their guard before it has acted.
    detached: true,
  })
  endWithFile(shell)
  return {
    async release() {
      if (shell.exitCode !== null || shell.signalCode !== null) return
      const exited = once(shell, 'exit')
      shell.stdin.end('all ended\n')
      await exited
    },
  }
}

function caller(ca: string, port: number, agent: Agent, bearer: string): KubeApiServer['call'] {
  return (method, path, body, accept = 'application/json') => {
    const text = body === undefined ? '' : JSON.stringify(body)
    const headers = {
      authorization: `Bearer ${bearer}`,
      'content-type': method === 'PATCH' ? 'application/apply-patch+yaml' : 'application/json',
      // Node would send the body of a DELETE without its length.
      'content-length': Buffer.byteLength(text),
      accept,
    }
    const { promise, resolve, reject } = Promise.withResolvers<ApiAnswer>()
    const sent = request({ host: '127.0.0.1', port, path, method, headers, ca, agent }, response => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const answer = Buffer.concat(chunks).toString()
        const isJson = response.headers['content-type']?.startsWith('application/json')
        resolve({
          status: response.statusCode ?? 0,
          body: isJson ? JSON.parse(answer) : answer,
          warnings: response.headersDistinct['warning'] ?? [],
        })
      })
    })
    sent.on('error', reject)
    sent.end(text)
    return promise
  }
}
