import { hashApiKey, newApiKey } from '../../domain/ids.ts'
import type { AppInput } from '../../domain/input/request-bodies.ts'
import type { App } from '../../domain/merchant.ts'
import type { Tx } from '../../storage/storage.ts'
import { insertApp, insertAppKey } from '../../storage/tables/apps.ts'
import { generateId, type Payments } from '../operation.ts'

interface CreatedApp {
  readonly app: App
  /** The API key. Only the answer to the creation contains it; the database stores a hash. */
  readonly key: string
}

/** Creates an app and an API key that does not expire. */
export async function createApp(tx: Tx, payments: Payments, { name }: AppInput): Promise<CreatedApp> {
  const createdMs = payments.clock.nowMs()
  const app = { id: generateId(payments), name, createdMs }
  const key = newApiKey(payments.randomBytes)
  await insertApp(tx, app)
  await insertAppKey(tx, { appId: app.id, hash: hashApiKey(key), createdMs, expiresMs: null })
  return { app, key }
}
