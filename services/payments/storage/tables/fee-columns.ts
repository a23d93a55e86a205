import type { Fee } from '../../domain/money/fees.ts'
import { column, type Field, object } from '../table.ts'

const parts = object({ flat: column<bigint>('fee_flat'), rate: column<bigint>('fee_rate') })

export const fee: Field<Fee> = {
  columns: parts.columns,
  write: parts.write,
  read(row) {
    const { flat, rate } = parts.read(row)
    return { flat, rate, total: flat + rate }
  },
}
