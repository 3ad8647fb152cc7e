package org.tfos;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class DriverTest {
    private static DriverOptions options() {
        DriverOptions options = new DriverOptions();
        options.nodes = 2;
        options.program = List.of("tfos", "trainer");
        options.command = "/no/such/command";
        return options;
    }

    /** The next order that is not about looking at Spark, which has two slots. */
    private static DriverOrder next(Driver driver) {
        while (true) {
            DriverOrder order = driver.next(10_000);
            if (order == null || order.kind() != DriverOrder.Kind.LOOK) {
                return order;
            }
            driver.reportSpark(2, 2, "a test says so", null, null, null);
        }
    }

    @Test
    void whatMakesNoSenseIsRefused() {
        DriverOptions options = options();
        options.restarts = -1;
        TfosException refused = assertThrows(TfosException.class, () -> new Driver(options));
        assertEquals(Status.INVALID, refused.status());
    }

    @Test
    void aCallEndsWithWhatHasFailed() {
        try (Driver driver = new Driver(options())) {
            long call = driver.awaitNodes();
            DriverOrder order = next(driver);
            while (order.kind() != DriverOrder.Kind.DONE) {
                order = next(driver);
            }
            assertEquals(call, order.call());
            assertEquals(DriverOrder.Outcome.FAILED, order.outcome());
            assertTrue(order.text().contains("cannot run the command /no/such/command"), order.text());
        }
    }

    @Test
    void nothingFollowsTheEnd() {
        try (Driver driver = new Driver(options())) {
            driver.stop("a \0 test"); // which no text of C's can have
            DriverOrder order = next(driver);
            while (order != null) {
                order = next(driver);
            }
            assertNull(driver.next(0));
        }
    }
}
