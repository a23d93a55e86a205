import assert from 'node:assert/strict'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Certificate, makeCertificate } from '../../../../test/support/certificate.ts'
import {
  missingPostgres,
  type PostgresServer,
  startPostgres,
} from '../../../../test/support/postgres-server.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { Storage } from '../storage.ts'
import { openPostgres } from './postgres.ts'

const skip = missingPostgres()

/** pg_hba.conf: TLS clients need a certificate. The connections of the tests, without TLS, need none. */
const accessRules = `
hostssl   all all 127.0.0.1/32 trust clientcert=verify-ca
hostnossl all all 127.0.0.1/32 trust
`

describe('PostgreSQL over TLS', { skip }, () => {
  const folder = temporaryFolder('postgres-tls')
  const file = (name: string) => join(folder, name)
  const [rootFile, certFile, keyFile] = [file('root'), file('client-cert'), file('client-key')]
  let server: PostgresServer
  /** The certificates of the server, before and after the rotation. */
  let servers: readonly [Certificate, Certificate]
  let clients: readonly [Certificate, Certificate]

  before(async () => {
    const make = (name: string) => makeCertificate(folder, name, 'IP:127.0.0.1')
    servers = [await make('server-0'), await make('server-1')]
    clients = [await make('tollway-0'), await make('tollway-1')]
    server = await startPostgres()
  })
  after(() => server.stop())

  /** Makes the server present the certificate `own` and accept only the client `admitted`. */
  async function serve(own: Certificate, admitted: Certificate): Promise<void> {
    server.writeFile('server.crt', own.cert)
    server.writeFile('server.key', own.key)
    server.writeFile('clients.crt', admitted.cert)
    server.writeFile('pg_hba.conf', accessRules)
    await server.sql("ALTER SYSTEM SET ssl_ca_file = 'clients.crt'")
    await server.sql('ALTER SYSTEM SET ssl = on')
    await server.sql('SELECT pg_reload_conf()')
  }

  /** Replaces the client's files atomically, as Kubernetes does: a reader never sees a part of a file. */
  function trust(authority: Certificate, client: Certificate): void {
    const contents = { [rootFile]: authority.cert, [certFile]: client.cert, [keyFile]: client.key }
    for (const [path, content] of Object.entries(contents)) {
      writeFileSync(`${path}.new`, content, { mode: 0o600 })
      renameSync(`${path}.new`, path)
    }
  }

  function open(t: TestContext, maxConnections: number): Storage {
    const files = new URLSearchParams({ sslrootcert: rootFile, sslcert: certFile, sslkey: keyFile })
    const url = `${server.url}?sslmode=verify-full&${files}`
    const storage = openPostgres({ url, clock: systemClock, random: Math.random, maxConnections })
    t.after(() => storage.close())
    return storage
  }

  const endConnections = () =>
    server.sql(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tollway-payments'",
    )
  const isEncrypted = async (storage: Storage) =>
    (await storage.read(tx => tx.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()')))[0]

  test('new connections use the replaced certificates', async t => {
    await serve(servers[0], clients[0])
    trust(servers[0], clients[0])
    const storage = open(t, 2)
    await waitFor('TLS', async () =>
      isEncrypted(storage).then(
        found => found !== undefined,
        () => false,
      ),
    )
    assert.deepEqual(await isEncrypted(storage), { ssl: true })

    await serve(servers[1], clients[1])
    await endConnections()
    await waitFor('the rejection', async () =>
      isEncrypted(storage).then(
        () => false,
        () => true,
      ),
    )
    trust(servers[1], clients[1])
    assert.deepEqual(await isEncrypted(storage), { ssl: true })
  })

  test('a missing file fails only the transactions that need a new connection', async t => {
    await serve(servers[0], clients[0])
    trust(servers[0], clients[0])
    const storage = open(t, 1)
    await waitFor('TLS', async () =>
      isEncrypted(storage).then(
        found => found !== undefined,
        () => false,
      ),
    )
    const held = Promise.withResolvers<void>()
    const holding = storage.transaction(async tx => {
      await held.promise
      await tx.query('SELECT 1')
    })
    const waiting = [isEncrypted(storage), isEncrypted(storage)]
    rmSync(rootFile)
    await endConnections()
    held.resolve()
    const outcomes = await Promise.allSettled([holding, ...waiting])
    for (const outcome of outcomes) {
      assert.equal(outcome.status, 'rejected')
      assert.match(`${outcome.reason}`, /no connection to the database: .*ENOENT.*root/)
    }
    trust(servers[0], clients[0])
    assert.deepEqual(await isEncrypted(storage), { ssl: true })
  })
})
