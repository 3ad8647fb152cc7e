/* The table of numbers, against an array that is as simple as can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "feed/number_map.h"

static void test_numbers_come_and_go(void **state)
{
    (void)state;
    enum { NUMBERS = 300 };
    static char value[NUMBERS];
    bool there[NUMBERS] = {false};
    size_t count = 0;
    tfos__number_map map = {0};
    uint64_t seed = 1;
    assert_null(tfos__number_map_get(&map, 0));
    tfos__number_map_remove(&map, 0);
    for (int step = 0; step < 100000; step++) {
        seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t number = (size_t)(seed >> 33) % NUMBERS;
        uint64_t key = number % 3 == 0 ? UINT64_MAX - number : number | (uint64_t)(number % 7) << 60;
        assert_ptr_equal(tfos__number_map_get(&map, key), there[number] ? &value[number] : NULL);
        if (there[number]) {
            tfos__number_map_remove(&map, key);
            count--;
        } else {
            assert_int_equal(tfos__number_map_put(&map, key, &value[number], NULL), TFOS_OK);
            count++;
        }
        there[number] = !there[number];
        assert_int_equal(map.count, count);
    }
    assert_in_range(map.capacity, NUMBERS, 4 * NUMBERS);
    tfos__number_map_reset(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers_come_and_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
