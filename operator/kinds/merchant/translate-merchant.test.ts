import { join } from 'node:path'
import { CORE_SCHEMA, load } from 'js-yaml'
import { goldenTests } from '../../../test/support/golden.ts'
import { translateMerchant } from './translate-merchant.ts'

goldenTests(join(import.meta.dirname, 'testdata/merchant'), text => {
  const resource = load(text, { schema: CORE_SCHEMA }) as {
    metadata: { namespace?: string; name: string }
  }
  const { namespace = 'default', name } = resource.metadata
  // Leaves out null fields, so that a new optional field changes no existing case.
  return withoutNulls(translateMerchant(`${namespace}/${name}`, resource))
})

function withoutNulls(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (_, inner) => inner ?? undefined))
}
