import { join } from 'node:path'
import { CORE_SCHEMA, load } from 'js-yaml'
import { goldenTests } from '../../test/support/golden.ts'
import { rateLimitWorkload } from './rate-limit.ts'

goldenTests(join(import.meta.dirname, 'testdata/rate-limit-workload'), text =>
  rateLimitWorkload(load(text, { schema: CORE_SCHEMA }) as Parameters<typeof rateLimitWorkload>[0]),
)
