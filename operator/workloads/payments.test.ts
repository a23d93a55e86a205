import { join } from 'node:path'
import { CORE_SCHEMA, load } from 'js-yaml'
import { goldenTests } from '../../test/support/golden.ts'
import { paymentsWorkload } from './payments.ts'

goldenTests(join(import.meta.dirname, 'testdata/payments-workload'), text =>
  paymentsWorkload(load(text, { schema: CORE_SCHEMA }) as Parameters<typeof paymentsWorkload>[0]),
)
