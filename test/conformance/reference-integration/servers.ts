import { execFile, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Certificate, makeCertificate } from '../../support/certificate.ts'
import { waitFor } from '../../support/wait-for.ts'

/** The password of every server in the reference's tests. */
const password = 'password123'

/** The ports of the reference's Makefile, which its tests use. */
const tlsServers = [
  { port: 6381, tlsPort: 16381, asksForCertificate: false },
  { port: 6382, tlsPort: 16382, asksForCertificate: false },
  { port: 6361, tlsPort: 16361, asksForCertificate: true },
]
const sentinelGroups = [
  { conf: 'sentinel.conf', master: 6392, replica: 6393, sentinels: [26394, 26395, 26396] },
  { conf: 'sentinel-pre-second.conf', master: 6397, replica: 6398, sentinels: [26399, 26400, 26401] },
]
const clusters = [
  [6386, 6387, 6388],
  [6389, 6390, 6391],
]

export interface ReferenceServers {
  readonly certificate: Certificate
  stop(): Promise<void>
}

/**
 * Starts the Redis servers that the reference's tests expect: with TLS, two groups with sentinels and two
 * clusters. Redis serves TLS itself, where the reference puts stunnel in front of it. The tests start all
 * other servers.
 *
 * @param folder for the certificate and the servers
 * @param confFolder the reference's `test/integration/conf`
 */
export async function startReferenceServers(folder: string, confFolder: string): Promise<ReferenceServers> {
  const { certFile, keyFile } = await makeCertificate(folder, 'cert', 'DNS:localhost')
  // The tests know the files by these names.
  const certificate = { certFile: join(folder, 'cert.pem'), keyFile: join(folder, 'key.pem') }
  const cert = readFileSync(certFile, 'utf8')
  const key = readFileSync(keyFile, 'utf8')
  writeFileSync(certificate.certFile, cert)
  writeFileSync(certificate.keyFile, key)
  const ports: number[] = []
  // An aborted run must not leave servers behind.
  const killAll = () => {
    for (const child of children) child.kill('SIGKILL')
  }
  process.once('exit', killAll)
  const children: ReturnType<typeof spawn>[] = []

  function start(port: number, ...args: string[]): void {
    const cwd = join(folder, `${port}`)
    mkdirSync(cwd)
    children.push(spawn('redis-server', args, { cwd, stdio: 'ignore' }))
    ports.push(port)
  }

  const plain = (port: number, ...more: string[]) =>
    start(port, '--port', `${port}`, '--requirepass', password, '--save', '', ...more)
  const files = ['--tls-cert-file', certificate.certFile, '--tls-key-file', certificate.keyFile]
  for (const { port, tlsPort, asksForCertificate } of tlsServers) {
    const clients = ['--tls-auth-clients', asksForCertificate ? 'yes' : 'no']
    plain(port, '--tls-port', `${tlsPort}`, ...files, '--tls-ca-cert-file', certificate.certFile, ...clients)
  }
  for (const { conf, master, replica, sentinels } of sentinelGroups) {
    plain(master)
    plain(replica, '--replicaof', '127.0.0.1', `${master}`, '--masterauth', password)
    const text = readFileSync(join(confFolder, conf), 'utf8').replace(
      /127\.0\.0\.1 \d+/,
      `127.0.0.1 ${master}`,
    )
    for (const port of sentinels) {
      const file = join(folder, `${port}.conf`)
      writeFileSync(file, text)
      start(port, file, '--sentinel', '--port', `${port}`)
    }
  }
  for (const port of clusters.flat()) plain(port, '--cluster-enabled', 'yes')
  await Promise.all(ports.map(port => waitFor(`port ${port}`, () => isOpen(port))))
  await Promise.all(clusters.map(joinCluster))
  return {
    certificate: { ...certificate, cert, key },
    async stop() {
      process.removeListener('exit', killAll)
      killAll()
    },
  }
}

async function joinCluster(ports: readonly number[]): Promise<void> {
  const nodes = ports.map(port => `127.0.0.1:${port}`)
  const login = ['-a', password, '--no-auth-warning']
  const run = promisify(execFile)
  await run('redis-cli', ['--cluster', 'create', ...login, ...nodes, '--cluster-yes'])
  await waitFor('the cluster', async () => {
    const states = await Promise.all(
      ports.map(port => run('redis-cli', [...login, '-p', `${port}`, 'CLUSTER', 'INFO'])),
    )
    return states.every(({ stdout }) => stdout.includes('cluster_state:ok'))
  })
}

function isOpen(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const client = connect({ host: '127.0.0.1', port })
    client.once('connect', () => {
      client.destroy()
      resolve(true)
    })
    client.once('error', () => resolve(false))
  })
}
