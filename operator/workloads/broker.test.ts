import { join } from 'node:path'
import { CORE_SCHEMA, load } from 'js-yaml'
import { goldenTests } from '../../test/support/golden.ts'
import { brokerWorkload } from './broker.ts'

goldenTests(join(import.meta.dirname, 'testdata/broker-workload'), text =>
  brokerWorkload(load(text, { schema: CORE_SCHEMA }) as Parameters<typeof brokerWorkload>[0]),
)
