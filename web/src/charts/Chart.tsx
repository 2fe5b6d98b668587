import { lazy, Suspense } from 'react'
import type { ChartProps } from '@/charts/Drawn'
import { Loading } from '@/parts/Loading'

// The chart library is most of the dashboard's weight: it comes only with the first chart.
const Drawn = lazy(() => import('@/charts/Drawn'))

/** A chart with a name, a sentence that says what it shows, and its data to take away as PNG, SVG or CSV. */
export function Chart(props: ChartProps) {
  return (
    <Suspense fallback={<Loading what="the chart" />}>
      <Drawn {...props} />
    </Suspense>
  )
}
