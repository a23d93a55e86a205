import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { connect, createServer, type TLSSocket } from 'node:tls'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import type { ServerTls } from '@tollway/grpc/server.ts'
import { Certificates } from '../../operator/certificates/certificates.ts'
import { type StoreInMemory, storeInMemory } from '../../operator/testing/store-in-memory.ts'
import * as names from '../../operator/workloads/cluster-names.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'
import { missingHelm, namespace, release, render } from './helm.ts'

const secrets = {
  authority: names.authoritySecret(release),
  server: names.feedServerSecret(release),
  client: names.feedClientSecret(release),
}
const values = readFileSync(join(import.meta.dirname, 'testdata/cert-manager.in.yaml'), 'utf8')

interface CertificateSpec {
  readonly secretName: string
  readonly dnsNames: readonly string[]
  readonly usages: readonly string[]
}

const specs = (): readonly CertificateSpec[] =>
  render({ values })
    .filter(({ kind }) => kind === 'Certificate')
    .map(({ spec }) => spec as CertificateSpec)

/**
 * Issues as cert-manager does for an Issuer of the kind CA with an intermediate authority: the chain in
 * tls.crt, the root in ca.crt, and the key of an elliptic curve as SEC1.
 */
function openIssuer() {
  const folder = temporaryFolder('issuer')
  const openssl = (...args: readonly string[]) => {
    const { status, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' })
    assert.equal(status, 0, stderr)
  }
  const newKey = (file: string) =>
    openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', file)
  const sign = (name: string, authority: string, extensions: string) => {
    writeFileSync(join(folder, `${name}.ext`), extensions)
    openssl('req', '-new', '-key', `${name}.key`, '-subj', `/CN=${name}`, '-out', `${name}.csr`)
    const by = ['-CA', `${authority}.crt`, '-CAkey', `${authority}.key`, '-CAcreateserial']
    const files = ['-in', `${name}.csr`, '-out', `${name}.crt`, '-extfile', `${name}.ext`]
    openssl('x509', '-req', '-days', '90', ...by, ...files)
  }
  const read = (file: string) => readFileSync(join(folder, file), 'utf8')
  newKey('root.key')
  openssl('req', '-x509', '-new', '-key', 'root.key', '-subj', '/CN=root', '-days', '365', '-out', 'root.crt')
  newKey('between.key')
  sign('between', 'root', 'basicConstraints=critical,CA:true\nkeyUsage=critical,keyCertSign\n')
  return {
    issue({ dnsNames, usages }: Pick<CertificateSpec, 'dnsNames' | 'usages'>) {
      const extended = usages.filter(usage => usage !== 'digital signature')
      newKey('leaf.key')
      sign(
        'leaf',
        'between',
        [
          'keyUsage=critical,digitalSignature',
          `extendedKeyUsage=${extended.map(usage => usage.replace(' auth', 'Auth')).join()}`,
          `subjectAltName=critical,${dnsNames.map(name => `DNS:${name}`).join()}`,
        ].join('\n'),
      )
      const chain = read('leaf.crt') + read('between.crt')
      return { 'tls.crt': chain, 'tls.key': read('leaf.key'), 'ca.crt': read('root.crt') }
    },
  }
}

function startOperator(t: TestContext, store: StoreInMemory) {
  const hosts = names.operatorHosts(release, namespace)
  const certificates = new Certificates({
    ...{ store, secretNames: secrets, issuer: 'other', log: silentLog },
    dnsNames: { server: hosts, client: [names.podIdentity(release, namespace)] },
    // Although it leads, it writes nothing.
    mayWrite: () => true,
    clock: systemClock,
    random: Math.random,
    timing: { checkEveryMs: 50, firstCheckEveryMs: 20 },
  })
  t.after(() => certificates.stop())
  certificates.start()
  return certificates
}

/** Connects a pod with the files of its Secret to an operator, and returns what both saw. */
async function connectPod(credentials: ReturnType<ServerTls['credentials']>, pod: StoreInMemory) {
  const server = createServer({ ...credentials, requestCert: true, rejectUnauthorized: true })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { 'tls.crt': cert = '', 'tls.key': key = '', 'ca.crt': ca = '' } = pod.data(secrets.client)
  const { port } = server.address() as AddressInfo
  const accepted = once(server, 'secureConnection') as Promise<[TLSSocket]>
  const socket = connect({
    port,
    host: '127.0.0.1',
    servername: names.feedHost(release, namespace),
    cert,
    key,
    ca,
  })
  await once(socket, 'secureConnect')
  const [peer] = await accepted
  const seen = { byOperator: peer.getPeerX509Certificate(), byPod: socket.getPeerX509Certificate() }
  socket.destroy()
  peer.destroy()
  server.close()
  return seen
}

test('installs over existing definitions with --take-ownership, and not without', async t => {
  if (missingHelm() !== false || requireProgram(t, 'openssl') === false) return t.skip()
  const store = storeInMemory()
  const issuer = openIssuer()
  const issueAll = () => {
    for (const spec of specs()) store.set(spec.secretName, issuer.issue(spec))
  }
  const operator = startOperator(t, store)
  await waitFor('the problem', () => operator.problem().includes('tollway-feed-server: does not exist'))
  issueAll()
  await operator.ready()
  await waitFor('no problem', () => operator.problem() === '')
  const serialOf = (secret: string) => new X509Certificate(store.data(secret)['tls.crt'] ?? '').serialNumber
  const first = operator.serverTls.credentials()
  let seen = await connectPod(first, store)
  assert.equal(seen.byPod?.serialNumber, serialOf(secrets.server))
  assert.equal(seen.byOperator?.serialNumber, serialOf(secrets.client))

  issueAll()
  await waitFor('the new certificate', () => operator.serverTls.credentials().cert !== first.cert)
  seen = await connectPod(operator.serverTls.credentials(), store)
  assert.equal(seen.byPod?.serialNumber, serialOf(secrets.server))
  assert.equal(seen.byOperator?.serialNumber, serialOf(secrets.client))
  assert.equal(operator.problem(), '')
  assert.deepEqual(Object.keys(store.data(secrets.server)).sort(), ['ca.crt', 'tls.crt', 'tls.key'])
  assert.deepEqual(store.data(secrets.authority), {})
})

test('an operator reports the problem of a Secret of another issuer', async t => {
  if (missingHelm() !== false || requireProgram(t, 'openssl') === false) return t.skip()
  const store = storeInMemory()
  const issuer = openIssuer()
  const [client, server] = specs()
  assert.ok(client && server)
  store.set(client.secretName, issuer.issue(client))
  const operator = startOperator(t, store)
  const faults: readonly [Readonly<Record<string, string>>, string][] = [
    [{ ...issuer.issue(server), 'ca.crt': '' }, 'has no ca.crt; use an issuer that writes'],
    [{ ...issuer.issue(server), 'tls.crt': 'nonsense' }, 'are not a certificate with its key in PEM'],
    [
      issuer.issue({ ...server, dnsNames: ['example.org'] }),
      'must be for DNS:tollway-operator.tollway-system.svc',
    ],
    [issuer.issue({ ...server, usages: ['server auth'] }), 'tls.crt has not the usage "client auth"'],
  ]
  for (const [data, problem] of faults) {
    store.set(server.secretName, data)
    await waitFor(
      problem,
      () => operator.problem().includes(`tollway-feed-server: `) && operator.problem().includes(problem),
    )
  }
  store.set(server.secretName, issuer.issue(server))
  await waitFor('no problem', () => operator.problem() === '')
})
