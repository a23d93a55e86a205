import { randomBytes } from 'node:crypto'
import { createLog } from '@tollway/chassis/log/log.ts'
import { hashApiKey } from '@tollway/payments/domain/ids.ts'
import { exampleMerchantInput } from '@tollway/payments/domain/merchant.ts'
import { createProvisionServer } from '../../services/payments/http/servers/provision-server.ts'
import { type PaymentsUnderTest, startPayments } from '../../services/payments/http/testing/api-under-test.ts'
import { findAppByKeyHash } from '../../services/payments/storage/tables/apps.ts'
import { createProvisionClient } from '../kinds/merchant/provision-client.ts'
import type { MerchantAccount } from '../model.ts'

export interface ProvisioningUnderTest extends PaymentsUnderTest {
  readonly url: URL
  readonly provisioner: ReturnType<typeof createProvisionClient>
  readonly logged: () => string
  /** Resolves with the number of merchants of a uid, including closed ones. */
  merchantsOf(uid: string): Promise<number>
  /** Resolves with the number of valid keys of an app. */
  keysInForce(appId: string): Promise<number>
  /** Resolves with the id of the app to which a key belongs; undefined for an invalid key. */
  appOf(key: string): Promise<string | undefined>
}

const token = 'token-of-a-test'

export async function startProvisioning(): Promise<ProvisioningUnderTest> {
  const under = await startPayments()
  const { payments, clock, storage } = under
  const lines: string[] = []
  const server = createProvisionServer({
    payments,
    token: () => token,
    clock,
    randomBytes,
    log: createLog({ level: 'debug', format: 'json', write: line => lines.push(line) }),
    onAnswer: () => {},
  })
  const port = await server.listen({ host: '127.0.0.1', port: 0 })
  const url = new URL(`http://127.0.0.1:${port}`)
  const client = createProvisionClient({ url, token: () => token })
  const count = async (sql: string, values: readonly (string | Date)[]) => {
    const [row] = await storage.transaction(tx => tx.query<{ count: number }>(sql, values))
    return Number(row?.count)
  }
  return {
    ...under,
    url,
    provisioner: client,
    logged: () => lines.join(''),
    merchantsOf: uid => count('SELECT count(*) FROM merchants WHERE provision_uid = $1', [uid]),
    keysInForce: appId =>
      count('SELECT count(*) FROM app_keys WHERE app_id = $1 AND (expires IS NULL OR expires > $2)', [
        appId,
        new Date(clock.nowMs()),
      ]),
    appOf: key =>
      storage.transaction(async tx => (await findAppByKeyHash(tx, hashApiKey(key), clock.nowMs()))?.id),
    async close() {
      client.end()
      await server.close(1_000)
      await under.close()
    },
  }
}

export function someAccount(changes: Partial<MerchantAccount> = {}): MerchantAccount {
  return {
    name: 'sales/shop',
    profile: {
      ...exampleMerchantInput,
      name: null,
      currency: 'DKK',
      test: true,
      email: 'shop@example.org',
      website: 'https://example.org',
      descriptor: 'SHOP',
      company: { country: 'DK', number: null },
      bank: null,
    },
    app: { name: null, rotateAfterMs: undefined, keyGraceMs: 3_600_000 },
    secret: {
      name: 'shop',
      entries: {
        apiKey: 'apiKey',
        appId: 'appId',
        merchantId: 'merchantId',
        publicKey: 'publicKey',
        baseUrl: 'baseUrl',
        payPageUrl: 'payPageUrl',
      },
    },
    users: [],
    webhooks: [],
    onDeletion: 'retain',
    ...changes,
  }
}
