import { join } from 'node:path'
import { goldenTests } from '../../../../../test/support/golden.ts'
import { objectsOfCase } from '../testing/objects-of-case.ts'

goldenTests(join(import.meta.dirname, 'testdata/objects'), objectsOfCase)
